//! Files that are packed with gzip or Zstandard, read as what is in them.
//!
//! The first bytes say how a file is packed; what begins with none of the known ones is read as it is. Everything
//! streams: memory does not grow with what comes out. A file of several gzip members or Zstandard frames, one after
//! the other, is one.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use wirebeat_units::{Fault, fault, into_fault};

/// Bytes read at once from what is packed.
const BUFFER: usize = 1 << 17;
/// What a gzip member begins with, RFC 1952, section 2.3.1.
const GZIP: &[u8] = b"\x1f\x8b";
/// What a Zstandard frame begins with, RFC 8878, section 3.1.1: little-endian.
const ZSTD: &[u8] = &0xfd2f_b528_u32.to_le_bytes();
/// So far back a frame may refer: 2^27 bytes, what `zstd` itself takes without `--long`.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Whether a frame of Zstandard begins so that holds something else, RFC 8878, section 3.1.2: 0x184D2A50 to 0x184D2A5F,
/// little-endian. `pzstd` writes such frames first, for example.
fn is_skippable(first: &[u8]) -> bool {
    matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Packing::Gzip => "gzip",
            Packing::Zstd => "Zstandard",
        })
    }
}

/// Packed bytes that cannot be unpacked. An error of the kind `InvalidData` holds it.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub struct Damaged {
    packing: Packing,
    /// Bytes that were read when it was found.
    at: u64,
    why: io::Error,
}

impl Damaged {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let Damaged { packing, at, why } = self;
        fault!(
            "the {packing} data is damaged or cut off near byte {at} of the file: {why}";
            "copy or pack the file anew"
        )
    }
}

into_fault!(Damaged);

/// What is in a file, and how the file is packed; `None`: it is not.
pub type Unpacked = (Box<dyn Read>, Option<Packing>);

/// Whether a file that begins so is packed.
pub fn is_packed(first: &[u8]) -> bool {
    packing(first).is_some()
}

fn packing(first: &[u8]) -> Option<Packing> {
    match first {
        first if first.starts_with(GZIP) => Some(Packing::Gzip),
        first if first.starts_with(ZSTD) || is_skippable(first) => Some(Packing::Zstd),
        _ => None,
    }
}

/// Looks at the first bytes of `from`, and reads what is in it.
///
/// # Errors
/// What the system says.
pub fn unpacked(mut from: Box<dyn Read>) -> io::Result<Unpacked> {
    let mut first = [0; ZSTD.len()];
    let mut len = 0;
    while len < first.len() {
        match from.read(&mut first[len..]) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let state = Rc::new(StreamState::default());
    let begun = Cursor::new(first[..len].to_vec()).chain(from);
    let Some(packing) = packing(&first[..len]) else { return Ok((Box::new(begun), None)) };
    let packed = BufReader::with_capacity(BUFFER, Packed { from: begun, state: Rc::clone(&state) });
    let decoder: Box<dyn Read> = match packing {
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    };
    Ok((Box::new(Unpacking { decoder, packing, state }), Some(packing)))
}

/// What is known of the packed bytes.
#[derive(Debug, Default)]
struct StreamState {
    /// How many were read.
    read: Cell<u64>,
    /// Whether the system refused to read more.
    refused: Cell<bool>,
}

/// The packed bytes.
struct Packed {
    from: Chain<Cursor<Vec<u8>>, Box<dyn Read>>,
    state: Rc<StreamState>,
}

impl Read for Packed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into);
        match &read {
            Ok(count) => self.state.read.set(self.state.read.get() + *count as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.state.refused.set(true),
        }
        read
    }
}

/// What is in them.
struct Unpacking {
    decoder: Box<dyn Read>,
    packing: Packing,
    state: Rc<StreamState>,
}

impl Read for Unpacking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(into).map_err(|why| {
            if self.state.refused.get() || why.kind() == io::ErrorKind::Interrupted {
                return why;
            }
            let damaged = Damaged { packing: self.packing, at: self.state.read.get(), why };
            io::Error::new(io::ErrorKind::InvalidData, damaged.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Gives a few bytes at a time.
    struct Trickle(Cursor<Vec<u8>>, usize);

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(into.len());
            self.0.read(&mut into[..count])
        }
    }

    fn read(packed: &[u8], step: usize) -> io::Result<(Vec<u8>, Option<Packing>)> {
        let (mut from, packing) = unpacked(Box::new(Trickle(Cursor::new(packed.to_vec()), step)))?;
        let mut all = Vec::new();
        from.read_to_end(&mut all)?;
        Ok((all, packing))
    }

    #[test]
    fn what_is_packed_is_known_by_its_first_bytes() {
        let text = b"time,device,value\n".repeat(1_000);
        for (packed, packing) in [
            (text.clone(), None),
            (gzip(&text), Some(Packing::Gzip)),
            (zstd(&text), Some(Packing::Zstd)),
        ] {
            for step in [1, 3, 1 << 20] {
                assert!(read(&packed, step).unwrap() == (text.clone(), packing));
            }
        }
        for kind in [0x50, 0x5f] {
            let skippable = [&[kind, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
            let packed = [skippable, zstd(&text)].concat();
            assert!(read(&packed, 3).unwrap() == (text.clone(), Some(Packing::Zstd)));
        }
        for short in [&b""[..], b"\x1f", b"a", b"\x28\xb5\x2f"] {
            assert_eq!(read(short, 1).unwrap(), (short.to_vec(), None));
        }
    }

    #[test]
    fn parts_one_after_the_other_are_one() {
        let both = [gzip(b"one,"), gzip(b"two")].concat();
        assert_eq!(read(&both, 5).unwrap().0, b"one,two");
        let both = [zstd(b"one,"), zstd(b"two")].concat();
        assert_eq!(read(&both, 5).unwrap().0, b"one,two");
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_told_with_its_place() {
        let text: Vec<u8> = (0..50_000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        for (packed, name) in [(gzip(&text), "gzip"), (zstd(&text), "Zstandard")] {
            let cut = &packed[..packed.len() / 2];
            let mut damaged = packed.clone();
            damaged[packed.len() / 2] ^= 0xff;
            let last = packed.len() - 1;
            damaged[last] ^= 0xff;
            for wrong in [cut, &damaged, &[&packed[..], b"more"].concat()] {
                let error = read(wrong, 999).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}: {error}");
                let told = error.to_string();
                assert!(told.contains(name) && told.contains("of the file: "), "{told}");
                assert!(told.contains("copy or pack the file anew"), "{told}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back_or_are_an_error(bytes: Vec<u8>, step in 1usize..50) {
            prop_assert_eq!(read(&gzip(&bytes), step).unwrap().0, &bytes[..]);
            prop_assert_eq!(read(&zstd(&bytes), step).unwrap().0, &bytes[..]);
            for first in [GZIP, b"\x1f\x8b\x08\0", ZSTD] {
                let _ = read(&[first, &bytes].concat(), step);
            }
        }
    }
}
