//! The headers of the frames of a capture, by which a receiver knows them again.

use std::collections::HashSet;

use wirebeat_units::{Fault, fault};
use wirebeat_wire::ethernet::FRAME_MIN;
use wirebeat_wire::headers::{HeaderKey, HeaderMatch};

use super::Recording;
use super::captures::Captures;
use super::source::SCANNED;
use super::template::Template;

/// The most different headers of one flow.
const HEADERS_MAX: usize = 65_536;

/// The headers of all frames that flow number `flow`, which is of these recordings if of any, replays from captures; or why
/// they are not known.
pub(crate) fn headers_of(recordings: &[Recording], flow: u32) -> Result<Vec<HeaderMatch>, Fault> {
    let mut recordings = recordings.iter().filter(|one| one.replay.is_capture());
    let Some(recording) = recordings.find(|one| one.flow == flow) else {
        return Err("it replays no capture, and has no probes".into());
    };
    let lengths = recording.paths.iter().filter_map(|path| std::fs::metadata(path).ok());
    if lengths.map(|file| file.len()).sum::<u64>() > SCANNED {
        return Err(fault!(
            "the headers of captures of more than {} MiB are not read beforehand",
            SCANNED >> 20
        ));
    }
    if let Some(copies) = &recording.copies {
        return Template::read(recording, copies)?.headers(copies, recording.replay.side);
    }
    let mut captures = Captures::open(recording)?;
    let mut known = HashSet::new();
    let mut padded = [0; FRAME_MIN];
    // what is wrong with it is told when it is sent
    while let Ok(Some(_)) = captures.advance() {
        let Ok(Some(frame)) = captures.take() else { continue };
        let frame = match padded.get_mut(..frame.len()) {
            Some(begin) => {
                begin.copy_from_slice(frame);
                let len = frame.len();
                padded[len..].fill(0);
                &padded[..]
            }
            None => frame,
        };
        let of = HeaderKey::of(frame).and_then(|_| HeaderMatch::of(frame, |_| false));
        let Some(of) = of else {
            return Err(fault!(
                "a fragment has no ports to be known by, and it replays some: {}",
                captures.place()
            ));
        };
        if known.insert(of) && known.len() > HEADERS_MAX {
            return Err(fault!("its frames have more than {HEADERS_MAX} different headers"));
        }
    }
    Ok(known.into_iter().collect())
}
