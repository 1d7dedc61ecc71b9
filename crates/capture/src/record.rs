//! How a frame lies in a block between the threads: a head of fixed length, then its first bytes.
//!
//! In memory only; little endian, whatever the machine is.

use wirebeat_meter::observation::{Sampled, Standing};
use wirebeat_units::Nanos;

use crate::seen::Outcome;
use crate::tap::Note;

/// Bytes of a head.
pub(crate) const HEAD: usize = 56;

const HAS_FLOW: u8 = 1;
const HAS_SEQUENCE: u8 = 2;
const HAS_SENT: u8 = 4;
const HAS_DUE: u8 = 8;
const HAS_SAMPLED: u8 = 16;
const UNTIMED: u8 = 32;
const LAST: u8 = 64;
const HAS_HASH: u8 = 128;

/// Those outcomes that are not of a [`Standing`], behind them.
const SENT: u8 = Standing::ALL.len() as u8;
const FAILED: u8 = SENT + 1;
const EXPIRED: u8 = SENT + 2;

fn number(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Received(standing) => standing as u8,
        Outcome::Sent => SENT,
        Outcome::Failed => FAILED,
        Outcome::Expired => EXPIRED,
    }
}

fn outcome(number: u8) -> Outcome {
    match number {
        SENT => Outcome::Sent,
        FAILED => Outcome::Failed,
        EXPIRED => Outcome::Expired,
        standing => Outcome::Received(
            Standing::ALL.get(usize::from(standing)).copied().unwrap_or(Standing::Foreign),
        ),
    }
}

/// Puts a frame and the bytes of it that are kept behind those that are in a block, which has room for it.
#[inline]
pub(crate) fn encode(block: &mut Vec<u8>, note: &Note<'_>, caught: &[u8]) {
    let mut head = [0_u8; HEAD];
    let mut flags = 0;
    head[..8].copy_from_slice(&note.at.get().to_le_bytes());
    if let Some(sent) = note.sent {
        flags |= HAS_SENT;
        head[8..16].copy_from_slice(&sent.get().to_le_bytes());
    }
    if let Some(due) = note.due {
        flags |= HAS_DUE;
        head[16..24].copy_from_slice(&due.get().to_le_bytes());
    }
    if let Some(sequence) = note.sequence {
        flags |= HAS_SEQUENCE;
        head[24..28].copy_from_slice(&sequence.to_le_bytes());
    }
    if let Some(flow) = note.flow {
        flags |= HAS_FLOW;
        head[36..38].copy_from_slice(&flow.to_le_bytes());
    }
    if let Some(sampled) = note.sampled {
        flags |= HAS_SAMPLED;
        flags |= if sampled.timed { 0 } else { UNTIMED };
        flags |= if sampled.last { LAST } else { 0 };
        // an IP packet has 8,192 fragments at the most
        let fragments = u16::try_from(sampled.fragments).unwrap_or(u16::MAX);
        head[42..44].copy_from_slice(&fragments.to_le_bytes());
        head[44..48].copy_from_slice(&sampled.payload_len.to_le_bytes());
        head[48..52].copy_from_slice(&sampled.packet_len.to_le_bytes());
    }
    if let Some(hash) = note.hash {
        flags |= HAS_HASH;
        head[52..56].copy_from_slice(&hash.to_le_bytes());
    }
    head[28..32].copy_from_slice(&note.frame_len.to_le_bytes());
    // a frame is no longer than the largest IP packet and its Ethernet header
    head[32..36].copy_from_slice(&(caught.len() as u32).to_le_bytes());
    head[38..40].copy_from_slice(&note.queue.to_le_bytes());
    head[40] = number(note.outcome);
    head[41] = flags;
    block.extend_from_slice(&head);
    block.extend_from_slice(caught);
}

/// The first frame in `records`, and what is behind it; `None` at their end.
#[inline]
pub(crate) fn decode(records: &[u8]) -> Option<(Note<'_>, &[u8])> {
    let (head, rest) = records.split_first_chunk::<HEAD>()?;
    let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap_or_default());
    let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let has = |flag: u8| head[41] & flag != 0;
    let (bytes, rest) = rest.split_at_checked(word(32) as usize)?;
    let sampled = has(HAS_SAMPLED).then(|| Sampled {
        payload_len: word(44),
        packet_len: word(48),
        fragments: short(42).into(),
        timed: !has(UNTIMED),
        last: has(LAST),
    });
    let note = Note {
        outcome: outcome(head[40]),
        at: Nanos::new(long(0)),
        flow: has(HAS_FLOW).then(|| short(36)),
        sequence: has(HAS_SEQUENCE).then(|| word(24)),
        sent: has(HAS_SENT).then(|| Nanos::new(long(8))),
        due: has(HAS_DUE).then(|| Nanos::new(long(16))),
        frame_len: word(28),
        sampled,
        queue: short(38),
        hash: has(HAS_HASH).then(|| word(52)),
        bytes,
    };
    Some((note, rest))
}

/// When the first frame in `records` was seen.
#[inline]
pub(crate) fn first_at(records: &[u8]) -> Option<Nanos> {
    records.first_chunk::<8>().map(|at| Nanos::new(u64::from_le_bytes(*at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_out_as_it_went_in() {
        let full = Note {
            outcome: Outcome::Expired,
            at: Nanos::new(u64::MAX),
            flow: Some(u16::MAX),
            sequence: Some(u32::MAX),
            sent: Some(Nanos::new(u64::MAX)),
            due: Some(Nanos::new(1)),
            frame_len: 1522,
            sampled: Some(Sampled {
                payload_len: 1480,
                packet_len: u32::MAX,
                fragments: 7,
                timed: false,
                last: true,
            }),
            queue: 3,
            hash: Some(u32::MAX),
            bytes: b"frame",
        };
        let bare = Note {
            outcome: Outcome::Received(Standing::Duplicate),
            flow: None,
            sequence: None,
            sent: None,
            due: None,
            sampled: None,
            bytes: &[],
            ..full
        };
        let mut block = Vec::new();
        for note in [&full, &bare] {
            encode(&mut block, note, note.bytes);
        }
        let (first, rest) = decode(&block).unwrap();
        let (second, rest) = decode(rest).unwrap();
        assert_eq!((first, second), (full, bare));
        assert!(decode(rest).is_none());
        assert_eq!(first_at(&block), Some(full.at));
        // one that is cut off is none
        assert!((0..HEAD + 5).all(|len| decode(&block[..len]).is_none()));
    }

    #[test]
    fn every_outcome_has_its_number() {
        let received = Standing::ALL.map(Outcome::Received);
        let all = received.into_iter().chain([Outcome::Sent, Outcome::Failed, Outcome::Expired]);
        assert!(all.clone().all(|one| outcome(number(one)) == one));
        assert_eq!(all.count(), usize::from(EXPIRED) + 1);
    }
}
