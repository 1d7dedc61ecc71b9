//! What a file is by how it begins: a capture, an archive, or something that cannot be replayed.
//!
//! An archive has no mark at its beginning. So a file is taken for one where a record begins it or stands near its beginning: an
//! archive with an error in it is left to who reads it, who knows more.

use std::io::{self, Read};
use std::path::Path;

use wirebeat_archive::capture;
use wirebeat_archive::compressed::is_packed;
use wirebeat_archive::time_series::{OnBad, Reader, Reading, Timestamp};
use wirebeat_units::{Fault, fault};

use crate::failure::Failure;
use crate::file::is_standard;

/// How much of a file is looked at: more than most errors damage.
pub const LOOKED_AT: usize = 1 << 20;
/// How much of it has to be text.
const TEXT: usize = 512;

/// What begins so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Empty,
    Capture,
    Archive,
    Packed,
    Text,
    Other,
}

/// Why what begins so cannot be replayed; `None` where it can, as far as that is seen.
pub fn refusal(begin: &[u8]) -> Option<Fault> {
    match kind(begin) {
        Kind::Empty => Some(fault!(
            "it is empty, so there is nothing to send";
            "name an archive or a capture (pcap, pcapng)"
        )),
        Kind::Text => Some(fault!(
            "this is text, and neither a capture (pcap, pcapng) nor an archive of time series";
            "of a table make an archive: wirebeat archive create day.wbar --csv FILE, where '-' reads standard input"
        )),
        Kind::Other => Some(fault!(
            "it is neither a capture (pcap, pcapng) nor an archive of time series";
            "check the name of the file; 'wirebeat archive create' makes archives of tables and captures"
        )),
        Kind::Capture | Kind::Archive | Kind::Packed => None,
    }
}

/// Refuses a file that cannot be replayed. With `on_bad` to skip, a long file without a record near its beginning may have some
/// behind it.
pub fn check(path: &Path, on_bad: OnBad) -> Result<(), Failure> {
    let place = || path.display().to_string();
    let begin = of_file(path).map_err(|error| {
        Failure::usage(format!("cannot read it: {error}"))
            .at(place())
            .hint("check the name of the file")
    })?;
    let refused = begin.filter(|begin| !may_go_on(begin, on_bad)).and_then(|begin| refusal(&begin));
    refused.map_or(Ok(()), |why| Err(Failure::usage(why).at(place())))
}

/// Refuses a file that is not an archive. What cannot be opened is told by who reads it.
pub fn check_archive(path: &Path, on_bad: OnBad) -> Result<(), Failure> {
    if is_standard(path) {
        return Ok(());
    }
    let name = path.display();
    let begin = of_file(path).ok().flatten().filter(|begin| !may_go_on(begin, on_bad));
    let why = match begin.as_deref().map(kind) {
        Some(Kind::Capture) => fault!(
            "this is a capture, and archives are read here";
            "make an archive of it: wirebeat archive create NEW --pcap {name}"
        ),
        Some(Kind::Packed) => fault!(
            "it is packed with gzip or Zstandard";
            "unpack it with zcat or zstdcat, and read standard input: zcat {name} | wirebeat archive inspect -"
        ),
        Some(Kind::Text) => fault!(
            "this is text, and not an archive of time series";
            "of a table make one: wirebeat archive create NEW --csv {name}"
        ),
        Some(Kind::Other) => fault!(
            "it is not an archive of time series: nothing near its beginning is a record";
            "check the name of the file; 'wirebeat archive create' makes archives of tables and captures"
        ),
        Some(Kind::Empty | Kind::Archive) | None => return Ok(()),
    };
    Err(Failure::usage(why).at(name.to_string()))
}

/// Whether there is more of the file than `begin`, and what is wrong there is to be skipped.
fn may_go_on(begin: &[u8], on_bad: OnBad) -> bool {
    on_bad == OnBad::Skip && begin.len() == LOOKED_AT && kind(begin) == Kind::Other
}

/// The beginning of a regular file; `None` of anything else.
fn of_file(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = wirebeat_run::open_regular(path)? else { return Ok(None) };
    let mut begin = Vec::new();
    file.take(LOOKED_AT as u64).read_to_end(&mut begin)?;
    Ok(Some(begin))
}

fn kind(begin: &[u8]) -> Kind {
    match begin {
        [] => Kind::Empty,
        _ if capture::begins(begin) => Kind::Capture,
        _ if is_packed(begin) => Kind::Packed,
        _ if has_record(begin) => Kind::Archive,
        _ if is_text(begin) => Kind::Text,
        _ => Kind::Other,
    }
}

/// Whether a record is there. The first is one where its time is: it may be cut off, or have the wrong length.
fn has_record(begin: &[u8]) -> bool {
    let time = begin.get(2..).and_then(<[u8]>::first_chunk);
    if time.is_some_and(|time| Timestamp::unpack(time).is_ok()) {
        return true;
    }
    let reading = Reading { on_bad: OnBad::Skip, any_order: true, ..Reading::default() };
    let mut reader = Reader::new(begin, "", reading);
    // an error is that of an archive: its lengths are in the other byte order
    reader.advance().map_or(true, |found| found || reader.tally().name_bytes > 0)
}

/// Whether it begins as lines of text do.
fn is_text(begin: &[u8]) -> bool {
    let begin = begin.get(..TEXT).unwrap_or(begin);
    let text = |byte: &u8| !byte.is_ascii_control() || b"\t\r\n".contains(byte);
    // the last character may be cut
    let is_utf8 =
        std::str::from_utf8(begin).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_utf8 && begin.iter().all(text)
}

#[cfg(test)]
mod tests {
    use wirebeat_archive::time_series::{Device, Record, Writer};

    use super::*;

    fn archive(records: i64) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new());
        for us in 0..records {
            let (time, device) = (Timestamp::utc(us).unwrap(), Device::named("a").unwrap());
            writer.write(&Record { time, device, data: b"data" }).unwrap();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn files_are_told_by_how_they_begin() {
        let whole = archive(9);
        let mut damaged = whole.clone();
        damaged[..20].fill(0xff);
        let mut turned = whole.clone();
        turned.chunks_mut(34).for_each(|record| record.swap(0, 1));
        for (begin, is) in [
            (&b""[..], Kind::Empty),
            (b"time,device,data\n2015-07-01T19:00:00Z,a,1\n", Kind::Text),
            ("zeit,gerät\r\n".as_bytes(), Kind::Text),
            (b"#!/bin/sh\nset -e\n", Kind::Text),
            (&[0xd4, 0xc3, 0xb2, 0xa1, b'a', b'b'], Kind::Capture),
            (&[0x1f, 0x8b, 8, 0, 0, 0], Kind::Packed),
            (&[0; 4096], Kind::Other),
            (&[0xff, 1, 7], Kind::Other),
            (&whole, Kind::Archive),
            (&whole[..30], Kind::Archive),
            (&damaged, Kind::Archive),
            (&turned, Kind::Archive),
        ] {
            assert_eq!(kind(begin), is, "{begin:?}");
        }
    }

    #[test]
    fn what_is_no_archive_is_told_with_what_it_is() {
        let path = std::env::temp_dir().join(format!("wirebeat-kinds-{}", std::process::id()));
        let told = |bytes: &[u8], on_bad| {
            std::fs::write(&path, bytes).unwrap();
            let told = [check(&path, on_bad), check_archive(&path, on_bad)];
            told.map(|told| told.err().map_or_else(String::new, |failure| failure.sentence()))
        };
        let [replayed, read] = told(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0], OnBad::Stop);
        assert!(replayed.is_empty() && read.contains("archive create NEW --pcap"), "{read}");
        let [replayed, read] = told(b"", OnBad::Stop);
        assert!(replayed.contains("it is empty") && read.is_empty(), "{replayed}");
        let noise = vec![0xee; LOOKED_AT + 1];
        let [replayed, read] = told(&noise, OnBad::Stop);
        assert!(
            replayed.contains("neither a capture") && read.contains("not an archive"),
            "{read}"
        );
        assert_eq!(told(&noise, OnBad::Skip), ["", ""]);
        assert_eq!(told(&archive(3), OnBad::Stop), ["", ""]);
        std::fs::remove_file(&path).unwrap();
        let gone = check(&path, OnBad::Stop).unwrap_err().sentence();
        assert!(gone.contains("No such file"), "{gone}");
    }
}
