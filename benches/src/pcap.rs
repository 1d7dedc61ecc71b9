//! Classic capture files: enough to give tcpreplay something to send and to read the times of a
//! capture. Pure.

/// Header of a file, and of each record, in bytes.
const FILE_HEAD: usize = 24;
const RECORD_HEAD: usize = 16;
/// Marks a file whose times have nanoseconds, in the byte order of the file.
const MAGIC_NANOS: u32 = 0xa1b2_3c4d;
/// The same with microseconds.
const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// A file with `frame` in it `count` times, one microsecond apart.
pub fn repeated(frame: &[u8], count: u32) -> Vec<u8> {
    of(MAGIC_MICROS, 1_000_000, (0..count.into()).map(|number| (number, frame)))
}

/// A file of frames at their times in nanoseconds.
pub fn timed<'a>(frames: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    of(MAGIC_NANOS, 1_000_000_000, frames)
}

/// Of frames at times of which `second` are a second.
fn of<'a>(magic: u32, second: u64, frames: impl Iterator<Item = (u64, &'a [u8])>) -> Vec<u8> {
    let mut file = Vec::new();
    // version 2.4, then two fields that are always zero, then the longest record
    let head = [magic, 2 | 4 << 16, 0, 0, 65_535, ETHERNET];
    file.extend(head.into_iter().flat_map(u32::to_le_bytes));
    for (time, frame) in frames {
        let len = frame.len() as u32;
        let head = [(time / second) as u32, (time % second) as u32, len, len];
        file.extend(head.into_iter().flat_map(u32::to_le_bytes));
        file.extend(frame);
    }
    file
}

/// Times of the records of a file with nanoseconds that a machine of this byte order wrote, in ns. A
/// record that is cut off at the end is left out.
pub fn times(file: &[u8]) -> Result<Vec<u64>, String> {
    let word = |at: usize| {
        file.get(at..)?.first_chunk().map(|bytes| u64::from(u32::from_ne_bytes(*bytes)))
    };
    match word(0) {
        Some(magic) if magic == u64::from(MAGIC_NANOS) => {}
        Some(magic) => return Err(format!("this is not a capture with nanoseconds: {magic:#x}")),
        None => return Err("the capture is empty".to_owned()),
    }
    let mut times = Vec::new();
    let mut at = FILE_HEAD;
    while let (Some(seconds), Some(nanos), Some(len)) = (word(at), word(at + 4), word(at + 8)) {
        at = at.saturating_add(RECORD_HEAD).saturating_add(len as usize);
        if at > file.len() {
            break;
        }
        times.push(seconds * 1_000_000_000 + nanos);
    }
    Ok(times)
}

/// How many whole records a file has that a machine of this byte order wrote, whatever its times are.
pub fn count(file: &[u8]) -> Result<u64, String> {
    let word = |at: usize| file.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    match word(0) {
        Some(MAGIC_NANOS | MAGIC_MICROS) => {}
        magic => return Err(format!("this is no capture file: {magic:x?}")),
    }
    let (mut records, mut at) = (0, FILE_HEAD);
    while let Some(len) = word(at.saturating_add(8)) {
        at = at.saturating_add(RECORD_HEAD).saturating_add(len as usize);
        if at > file.len() {
            break;
        }
        records += 1;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_records_are_counted_whatever_their_times_are() {
        let file = repeated(&[7; 60], 5);
        assert_eq!((count(&file), count(&file[..file.len() - 1])), (Ok(5), Ok(4)));
        assert_eq!(count(&timed([(1, &[7; 60][..])].into_iter())), Ok(1));
        assert_eq!(count(&file[..FILE_HEAD]), Ok(0));
        assert!(count(&[]).is_err() && count(&[0x0a; 30]).is_err());
    }

    /// A file as tcpdump writes it here.
    fn capture(magic: u32, records: &[(u32, u32)]) -> Vec<u8> {
        let mut words = vec![magic, 2 | 4 << 16, 0, 0, 262_144, ETHERNET];
        for (seconds, nanos) in records {
            words.extend([*seconds, *nanos, 4, 60, 0xffff_ffff]);
        }
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn times_have_nanoseconds() {
        let file = capture(MAGIC_NANOS, &[(1, 999_999_999), (2, 7)]);
        assert_eq!(times(&file), Ok(vec![1_999_999_999, 2_000_000_007]));
        assert_eq!(times(&file[..file.len() - 1]), Ok(vec![1_999_999_999]));
        assert_eq!(times(&capture(MAGIC_NANOS, &[])), Ok(vec![]));
    }

    #[test]
    fn other_files_are_refused() {
        assert!(times(&capture(MAGIC_MICROS, &[(1, 2)])).unwrap_err().contains("0xa1b2c3d4"));
        assert!(times(b"").is_err() && times(b"x").is_err());
    }

    #[test]
    fn no_lengths_make_it_panic() {
        let mut file = capture(MAGIC_NANOS, &[(1, 2)]);
        file[FILE_HEAD + 8..FILE_HEAD + 12].fill(0xff);
        assert_eq!(times(&file), Ok(vec![]));
    }

    #[test]
    fn a_repeated_frame_is_there_as_often_as_asked() {
        let file = repeated(&[7; 60], 1_000_001);
        assert_eq!(file.len(), 24 + 1_000_001 * 76);
        assert_eq!(file[..4], MAGIC_MICROS.to_le_bytes());
        assert_eq!(file[20..24], 1u32.to_le_bytes());
        let last = &file[file.len() - 76..];
        assert_eq!(last[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(last[16..], [7; 60]);
    }
}
