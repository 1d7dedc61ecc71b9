//! Any bytes as a packet log: what `wirebeat report FILE` reads, in bounded memory, as it is and after its repair. The reader takes
//! files, so each input is one in memory.
//!
//! The library below panics on some bytes, which the reader catches; a fuzzer's own hook would end at it, so it is
//! taken away.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use wirebeat_capture::packet_log::read::LogReader;
use wirebeat_capture::packet_log::rebuild::rebuild;

/// A file of this process, in memory where the system has such a folder.
fn file() -> PathBuf {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    folder.join(format!("wirebeat-fuzz-{}.parquet", std::process::id()))
}

/// How many rows it has, as far as they can be read.
fn rows(path: &Path) -> Option<u64> {
    let mut reader = LogReader::open(path).ok()?;
    let said = reader.rows();
    let mut count = 0;
    while let Ok(Some(_)) = reader.next_row() {
        count += 1;
    }
    assert!(count <= said, "{count} of {said}");
    Some(count)
}

fuzz_target!(
    init: {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let inside = info.location().is_some_and(|place| place.file().contains("/parquet-"));
            if !inside {
                hook(info);
            }
        }));
    },
    |bytes: &[u8]| {
        let path = file();
        if fs::write(&path, bytes).is_err() {
            return;
        }
        let first = rows(&path);
        let _ = rebuild(&path);
        if first.is_some() && LogReader::open(&path).is_ok_and(|log| log.repair().is_ok()) {
            // it loses nothing that could be read before
            assert!(rows(&path) >= first);
        }
        let _ = wirebeat_run::report_log(&path);
        let _ = fs::remove_file(&path);
    }
);
