//! What a process took: CPU time in nanoseconds, its largest resident set, and the size of its program (proc(5), elf(5)).

use std::fs;
use std::path::{Path, PathBuf};

/// CPU time of all threads of a process that live, in nanoseconds.
pub fn cpu_ns(id: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).ok()?;
    let times = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse::<u64>().ok()
    });
    Some(times.sum())
}

/// The largest resident set so far, in bytes.
pub fn resident_peak(id: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    kilobytes.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Sizes of a program, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Of its file.
    pub file: u64,
    /// Of what is loaded of it: its code and data.
    pub loaded: u64,
}

/// The size of a program, by its name or path.
pub fn size(program: &Path) -> Option<Size> {
    let path = if program.is_absolute() { program.to_owned() } else { on_path(program)? };
    let bytes = fs::read(path).ok()?;
    Some(Size { file: bytes.len() as u64, loaded: loaded(&bytes)? })
}

fn on_path(program: &Path) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Bytes of the segments of type PT_LOAD of a little-endian 64-bit ELF file.
fn loaded(file: &[u8]) -> Option<u64> {
    const PT_LOAD: u64 = 1;
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    (file.get(..6)? == b"\x7fELF\x02\x01").then_some(())?;
    let (table, entry, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)?);
    (0..count as usize)
        .map(|index| {
            let at = table.checked_add(index.checked_mul(entry)?)?;
            Some(if number(at, 4)? == PT_LOAD { number(at.checked_add(32)?, 8)? } else { 0 })
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_own() {
        let id = std::process::id();
        assert!(cpu_ns(id).is_some() && resident_peak(id).unwrap() > 100_000);
        let size = size(&std::env::current_exe().unwrap()).unwrap();
        assert!(size.loaded > 10_000 && size.loaded < size.file, "{size:?}");
        assert_eq!(super::size(Path::new("no-such-program-at-all")), None);
        assert_eq!(loaded(b"#!/bin/sh\n"), None);
        assert_eq!(loaded(b"\x7fELF\x02\x01"), None);
    }
}
