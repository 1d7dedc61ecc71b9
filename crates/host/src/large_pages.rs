//! Large pages for tables of many sessions. A segment finds its session by a few reads all over such a table, and with pages of 4 KiB
//! each of them waits for the translation of an address as well as for memory.
//!
//! `madvise(MADV_HUGEPAGE)` of madvise(2) is a wish: the system gives transparent large pages where it has them, from memory that is not
//! touched yet. No safe crate wraps the call without a pointer, so this file has an `unsafe` block.

use crate::files;

/// How many entries make it worth to ask: their tables are larger than what a processor keeps of translated addresses (2,048 pages of
/// 4 KiB and less), and 2 MiB at the end of each are little beside them.
const MANY: usize = 500_000;
/// The least memory that is asked for in large pages at a time, in bytes: tables, not what lies between them.
const LARGE: u64 = 16 << 20;

/// Asks for large pages for the tables of this process, where they have so many entries that it is worth it. Returns for how many bytes.
pub fn ask_for_tables(entries: usize) -> u64 {
    if entries >= MANY { ask(LARGE) } else { 0 }
}

/// Asks for large pages for all memory of this process that lies in pieces of at least `least` bytes: its own, not that of files. Returns
/// how many bytes that is; 0 where the system has no large pages, or gives them only where nobody asks.
fn ask(least: u64) -> u64 {
    let Some(maps) = files::text("/proc/self/maps") else { return 0 };
    let large = maps.lines().filter_map(anonymous).filter(|(from, to)| to - from >= least);
    large.filter(|&(from, to)| advise(from, to)).map(|(from, to)| to - from).sum()
}

/// From where to where memory lies that this process reads and writes alone and that no file stands behind, by a line of
/// `/proc/self/maps` (proc(5): addresses, rights, offset, device, inode, path).
fn anonymous(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let private = words.next()? == "rw-p";
    let inode = words.nth(2)?;
    // memory with a name, such as a stack or the heap, is not one large table
    if !private || inode != "0" || words.next().is_some() {
        return None;
    }
    let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).ok());
    from.zip(to).filter(|(from, to)| from < to)
}

/// Asks for large pages from `from` to `to`; whether the system takes the wish.
#[allow(unsafe_code)]
fn advise(from: u64, to: u64) -> bool {
    let (Ok(start), Ok(len)) = (usize::try_from(from), usize::try_from(to - from)) else {
        return false;
    };
    // SAFETY: MADV_HUGEPAGE changes neither what lies in memory nor who may read or write it, so it is sound for any range: where
    // nothing lies there any more, the call fails, and where something else does, its pages become larger.
    unsafe { libc::madvise(start as *mut libc::c_void, len, libc::MADV_HUGEPAGE) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_found_among_the_maps() {
        let of = |line| anonymous(line);
        assert_eq!(
            of("7f0000000000-7f0000400000 rw-p 00000000 00:00 0 "),
            Some((0x7f00_0000_0000, 0x7f00_0040_0000))
        );
        assert_eq!(of("7f0000000000-7f0000400000 rw-s 00000000 00:00 0 "), None, "shared");
        assert_eq!(of("7f0000000000-7f0000400000 r--p 00000000 00:00 0 "), None, "read alone");
        assert_eq!(
            of("7f0000000000-7f0000400000 rw-p 00000000 fe:00 12 /usr/lib/libc.so.6"),
            None,
            "a file"
        );
        assert_eq!(of("7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]"), None);
        assert_eq!(of("7f0000400000-7f0000000000 rw-p 00000000 00:00 0 "), None, "backwards");
        assert_eq!(of("no map"), None);
    }

    #[test]
    fn a_large_table_gets_large_pages_where_the_system_gives_them() {
        const LEN: u64 = 64 << 20;
        let mut table: Vec<u8> = Vec::with_capacity(LEN as usize);
        let asked = ask(LEN);
        let choice = files::text("/sys/kernel/mm/transparent_hugepage/enabled");
        if choice.is_none_or(|text| text.contains("[never]")) {
            return;
        }
        assert!(asked >= LEN, "{asked} bytes were asked for");
        table.resize(LEN as usize, 1);
        let smaps = files::text("/proc/self/smaps").unwrap_or_default();
        let address = table.as_ptr() as u64;
        let mut inside = false;
        let mut large = 0;
        for line in smaps.lines() {
            if let Some((from, to)) = anonymous(line) {
                inside = (from..to).contains(&address);
            } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
                large = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            }
        }
        // the system may have few left, but on a machine without other work it has one
        assert!(large >= 2048, "{large} KiB of large pages");
    }
}
