//! The same measurements once more, of frames as a packet log kept them.
//!
//! What each frame is was decided when it arrived; here its flow takes it again, in the order of arrival on each queue. The
//! judgement of its sequence number is made anew, so that the measurements do not rest on what the log says of it.

use super::Meter;
use crate::flow::Sample;
use crate::observation::{Judged, LoggedFrame, Sampled, Standing};

impl Meter {
    /// Takes a frame again, and says what becomes of it now: what became of it then, unless the log lacks frames, or several
    /// queues saw theirs in another order than the log has them.
    pub fn record_again(&mut self, frame: &LoggedFrame) -> Standing {
        let LoggedFrame { at, frame_len, judged } = *frame;
        let Judged { flow, sequence, sent, standing, sampled } = judged;
        if standing == Standing::Fragment {
            self.reassembly.note_fragment();
            return standing;
        }
        let Sampled { payload_len, packet_len, fragments, timed, last } =
            sampled.unwrap_or(Sampled {
                payload_len: 0,
                packet_len: frame_len,
                fragments: 0,
                timed: true,
                last: false,
            });
        self.reassembly.note_packet(fragments);
        if standing.is_measured() {
            let sample = Sample {
                at,
                timed,
                sent,
                sequence,
                frame_len: packet_len,
                fragments,
                payload_len,
                last,
            };
            if let Some(standing) = self.measure_again(flow, &sample) {
                return standing;
            }
        }
        let (counter, standing) = match standing {
            Standing::Stale => (&mut self.stale, standing),
            Standing::Malformed => (&mut self.malformed, standing),
            Standing::Foreign => (&mut self.foreign, standing),
            // or of a flow for which there is no room
            _ => (&mut self.unknown_flow, Standing::UnknownFlow),
        };
        *counter += 1 + u64::from(fragments);
        standing
    }

    /// Gives a frame to its flow: by its number where it has a probe, else as one that is known by its headers, or by nothing.
    fn measure_again(&mut self, flow: Option<u16>, sample: &Sample) -> Option<Standing> {
        let Some(id) = flow else { return Some(self.unprobed.record(sample, &mut self.memory)) };
        if sample.sequence.is_none()
            && let Some(meter) = self.recognised.get_mut(&id)
        {
            return Some(meter.record(sample, &mut self.memory));
        }
        let (meter, memory) = self.place(id)?;
        Some(meter.record(sample, memory))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wirebeat_units::Nanos;
    use wirebeat_wire::codec::{Codec, Facts};
    use wirebeat_wire::headers::HeaderMatch;
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::testing::udp_frame;

    use crate::bins::Bins;
    use crate::codecs::Codecs;
    use crate::flow::Expectation;
    use crate::headers::HeaderTable;
    use crate::meter::{Flows, Meter, MeterConfig};
    use crate::observation::{LoggedFrame, Standing};
    use crate::queues::meters;
    use crate::summary::MeterSummary;
    use crate::testing::config;

    /// A frame that arrives: what it is, how it is disturbed.
    #[derive(Clone, Copy, Debug)]
    struct Arrival {
        kind: u8,
        flow: u16,
        /// How far from its turn its number is.
        step: i16,
        /// How long after the one before it comes, and how long it was under way.
        gap_ns: u64,
        delay_ns: u64,
        len: usize,
        queue: usize,
        timed: bool,
    }

    fn arrival() -> impl Strategy<Value = Arrival> {
        let step = prop_oneof![8 => Just(0i16), 2 => -40..40i16, 1 => any::<i16>()];
        let gap = prop_oneof![20 => 0..5_000u64, 1 => 0..2_000_000_000u64];
        let frame = (0..12u8, 0..5u16, step, 18..200usize);
        (frame, gap, 0..1_000_000u64, 0..3usize, 0..10u8).prop_map(
            |((kind, flow, step, len), gap_ns, delay_ns, queue, timed)| Arrival {
                kind,
                flow,
                step,
                gap_ns,
                delay_ns,
                len,
                queue,
                timed: timed > 0,
            },
        )
    }

    /// The bytes of a frame, of which two are the fragments of one packet.
    fn bytes(arrival: &Arrival, sequence: u32, sent: u64) -> Vec<Vec<u8>> {
        let mut payload = vec![0; arrival.len];
        let at = payload.len() - wirebeat_wire::probe::LEN;
        let probe = Probe { flow: arrival.flow, sequence, transmit_ns: sent };
        payload[at..].copy_from_slice(&probe.to_bytes());
        let of = |payload: &[u8]| udp_frame("10.0.0.1:1000", "10.0.0.2:9", payload);
        match arrival.kind {
            // without a probe, known by its headers, of another tool, damaged, of another kind
            0 => vec![of(&vec![1; arrival.len])],
            1 => vec![udp_frame("10.0.0.1:7777", "10.0.0.2:9", &[3; 30])],
            2 => {
                let mut payload = vec![0; arrival.len.max(60)];
                let (flow, destination) = (u32::from(arrival.flow) + 10, ([10, 0, 0, 2], 9).into());
                Codec::Mgen.blank(&Facts { flow, destination }, &mut payload).unwrap();
                Codec::Mgen.marks().write(&mut payload, sequence.into(), sent);
                vec![of(&payload)]
            }
            3 => vec![of(&payload)[..40].to_vec()],
            4 => vec![[&[2; 12][..], &[0x88, 0xb5], &[0; 46]].concat()],
            5 => fragments(&of(&payload)),
            6 => vec![fragments(&of(&payload)).remove(0)],
            7 => vec![of(&[
                &vec![0; arrival.len][..],
                &Probe { transmit_ns: 1, ..probe }.to_bytes(),
            ]
            .concat())],
            _ => vec![of(&payload)],
        }
    }

    /// A frame of IPv4 as two fragments.
    fn fragments(frame: &[u8]) -> Vec<Vec<u8>> {
        let len = usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20;
        let part = |from: usize, to: usize, more: u8| {
            let mut part = [&frame[..34], &frame[34 + from..34 + to]].concat();
            part[16..18].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
            part[20] = more;
            part[21] = (from / 8) as u8;
            part
        };
        vec![part(0, 16, 0x20), part(16, len, 0)]
    }

    fn configs() -> [MeterConfig; 2] {
        let mut headers = HeaderTable::default();
        let known = udp_frame("10.0.0.1:7777", "10.0.0.2:9", &[3; 30]);
        headers.add(HeaderMatch::of(&known, |_| false).unwrap(), 90);
        let expected = Expectation { nominal_gap: Some(Nanos::new(2_500)), delay_base: 300 };
        let run_start = Some(Nanos::new(1_000));
        let codecs = Codecs { read: vec![Codec::Mgen], ..Codecs::default() };
        [
            MeterConfig {
                flows: Flows::Expected([(0, expected), (1, Expectation::default())].into()),
                bins: Bins::new(Nanos::new(100), 40).ok(),
                window: 64,
                run_start,
                headers,
                recognised: [(90, expected)].into(),
                ..MeterConfig::default()
            },
            MeterConfig { flows: Flows::Any(4), run_start, codecs, ..MeterConfig::default() },
        ]
    }

    fn total(meters: Vec<Meter>) -> MeterSummary {
        meters.into_iter().map(Meter::into_summary).fold(MeterSummary::default(), |mut all, one| {
            all.merge(&one);
            all
        })
    }

    /// What a meter takes with only what a log has of it.
    fn again(config: MeterConfig) -> MeterConfig {
        MeterConfig {
            run_start: None,
            codecs: Codecs::default(),
            headers: HeaderTable::default(),
            ..config
        }
    }

    fn hold(arrivals: &[Arrival], queues: usize) -> Result<(), TestCaseError> {
        for config in configs() {
            let mut measured = meters(config.clone(), queues);
            let mut repeated = meters(again(config), queues);
            let (mut at, mut numbers) = (10_000_000_000_u64, [0u32; 5]);
            for arrival in arrivals {
                at += arrival.gap_ns;
                let number = &mut numbers[usize::from(arrival.flow)];
                *number = number.wrapping_add(1);
                let sequence = number.wrapping_add_signed(arrival.step.into());
                for bytes in bytes(arrival, sequence, at - arrival.delay_ns) {
                    let queue = arrival.queue % queues;
                    if !arrival.timed {
                        measured[queue].leave_time_out();
                    }
                    let (time, frame_len) = (Nanos::new(at), bytes.len() as u32 + 4);
                    let judged = measured[queue].record_frame(time, &bytes, frame_len);
                    let logged = LoggedFrame { at: time, frame_len, judged };
                    prop_assert_eq!(repeated[queue].record_again(&logged), judged.standing);
                }
            }
            prop_assert_eq!(total(measured), total(repeated));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn what_was_logged_measures_as_what_arrived(
            arrivals in prop::collection::vec(arrival(), 0..300),
        ) {
            hold(&arrivals, 1)?;
        }

        #[test]
        fn so_it_does_on_several_queues(arrivals in prop::collection::vec(arrival(), 0..200)) {
            hold(&arrivals, 3)?;
        }
    }

    /// A sender begins again, and more is lost than the window holds.
    #[test]
    fn restarts_and_long_losses_measure_the_same() {
        let config = MeterConfig { window: 64, ..MeterConfig::default() };
        let (mut one, mut other) = (Meter::new(config.clone()), Meter::new(config));
        let first = (0..1_000u64).filter(|number| !(300..700).contains(number));
        let second = 0..500;
        let mut standings = Vec::new();
        for (turn, number) in first.chain(second).enumerate() {
            let sent = 1_000_000 * turn as u64 + 5_000_000_000 * (turn as u64 / 600);
            let probe = Probe { flow: 7, sequence: number as u32, transmit_ns: sent };
            let payload = [&[0, 0][..], &probe.to_bytes()].concat();
            let at = Nanos::new(sent + 900);
            let frame = udp_frame("10.0.0.1:1000", "10.0.0.2:9", &payload);
            let judged = one.record_frame(at, &frame, 64);
            standings.push(judged.standing);
            let again = other.record_again(&LoggedFrame { at, frame_len: 64, judged });
            assert_eq!(again, judged.standing);
        }
        assert!(standings.contains(&Standing::Doubtful));
        let summary = one.into_summary();
        assert_eq!(summary.flows[&7].sequence.restarts, 1);
        assert_eq!(summary, other.into_summary());
    }

    #[test]
    fn a_flow_for_which_there_is_no_room_is_counted() {
        let config = MeterConfig { flows: Flows::Any(1), ..MeterConfig::default() };
        let mut meter = Meter::new(config);
        let at = Nanos::new(5);
        for (flow, expected) in [(3, Standing::New), (4, Standing::UnknownFlow)] {
            let judged = crate::observation::Judged {
                flow: Some(flow),
                sequence: Some(0),
                sent: Some(Nanos::new(1)),
                standing: Standing::New,
                sampled: None,
            };
            let logged = LoggedFrame { at, frame_len: 64, judged };
            assert_eq!(meter.record_again(&logged), expected);
        }
        assert_eq!(meter.summary().unknown_flow, 1);
    }
}
