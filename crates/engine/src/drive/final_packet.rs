//! The last packet of flows whose probes have a mark for it: iperf 2's server reports when it sees that.
//!
//! It comes right after the schedule, is one frame more than it, and is counted like any other. Where several
//! cores send a flow, no final packet is sent: none of them knows which of its frames is the last.

use wirebeat_traffic::program::{Cutter, Program};
use wirebeat_units::Nanos;
use wirebeat_wire::stamp::Stamp;

use super::{Job, TxCounters};
use crate::port::{ExternalPayload, Place, PortError, Segments, TxMeta, TxPort};

/// How long after the others it leaves.
pub(super) const AFTER: Nanos = Nanos::from_millis(2);

/// Whether flow number `flow` has a last packet of its own.
pub(super) fn has_last(program: &Program, flow: u32) -> bool {
    program.codec(flow).is_some_and(|codec| codec.last(1).is_some())
}

/// A packet that is never dropped and, where others of its flow are, not late by the limit of those that may leave at any time.
fn never_dropped(drift: Nanos) -> Nanos {
    match drift {
        Nanos::MAX => Nanos::MAX,
        _ => Nanos::new(u64::MAX - 1),
    }
}

/// Hands the last packets over, to leave at `launch`.
pub(super) fn send<P: TxPort>(
    port: &mut P,
    job: &Job<'_>,
    tally: &mut TxCounters,
    launch: Nanos,
) -> Result<(), PortError> {
    let sent =
        |flow: u32| tally.lines.get(flow as usize).is_some_and(|line| line.requested.frames > 0);
    let marked = |flow: &&u32| has_last(job.program, **flow) && sent(**flow);
    let flows: Vec<u32> = match job.shard.cores {
        1 => job.flows.iter().filter(marked).copied().collect(),
        _ => Vec::new(),
    };
    for flow in flows {
        let Some((stream, codec)) = job.program.streams(flow).first().zip(job.program.codec(flow))
        else {
            continue;
        };
        let frames = tally.lines.get(flow as usize).map_or(0, |line| line.requested.frames);
        // A port that numbers frames by itself has numbered all that were handed over, but for those it drops.
        let number = match port.caps().holds {
            true => frames as u32,
            false => job.sequences.take(flow, 1),
        };
        let image = port.caps().view.image(stream);
        let (mut cutter, parts) = (Cutter::default(), image.parts(frames));
        for part in if parts > 1 { 1..=parts } else { 0..=0 } {
            if port.reserve(1)? == 0 {
                port.flush()?;
                if port.reserve(1)? == 0 {
                    break;
                }
            }
            let slot = port.slot(0);
            let built = cutter.build(&image, (flow, frames), part, slot);
            built.stamp_last(codec, slot, number, job.moment(launch));
            tally.requested(flow, &built);
            port.commit(&[TxMeta {
                number: None,
                len: built.len as u16,
                counted: built.counted,
                tag: flow,
                launch,
                // written already: a port that stamps by itself is to leave it alone
                stamp: Stamp::default(),
                drift: never_dropped(job.drift(flow)),
                spacing: Nanos::ZERO,
                place: Place::Whole,
                external: ExternalPayload::default(),
                segments: Segments::default(),
            }])?;
        }
        port.flush()?;
    }
    Ok(())
}
