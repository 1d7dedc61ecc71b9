//! Round trips and the retransmission timeout (RFC 6298), in microseconds.

use wirebeat_units::Nanos;

use crate::flight::ActiveTcb;
use crate::profile::Profile;
use crate::tcb::{Marks, State, Tcb};

/// The granularity of timers, in microseconds: a tick of the wheel, rounded up.
pub(crate) const GRANULARITY: u32 = 263;
/// The timeout after a SYN was sent twice, before a round trip was measured (RFC 6298 §5.7).
const AFTER_SYN_LOSS: Nanos = Nanos::from_secs(3);
/// No round trip is longer: four minutes, twice the maximum segment lifetime. It keeps the arithmetic within 32 bits.
const RTT_MAX: u32 = 240_000_000;

impl ActiveTcb<'_> {
    /// The retransmission timeout, doubled as often as it ran out.
    pub(crate) fn rto(&self, profile: &Profile) -> Nanos {
        self.rto_at(profile, self.flight.backoff)
    }
}

impl Tcb {
    /// Takes a sample (RFC 6298 §2.2 and §2.3). The smoothed values are kept times 8 and times 4, so that no fraction is lost.
    #[inline]
    pub(crate) fn rtt_sample(&mut self, rtt: u32) {
        let rtt = rtt.clamp(1, RTT_MAX);
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (rtt * 8, rtt * 2);
        } else {
            let deviation = (self.srtt / 8).abs_diff(rtt);
            self.rttvar = self.rttvar - self.rttvar / 4 + deviation;
            self.srtt = (self.srtt - self.srtt / 8 + rtt).max(8);
        }
    }

    /// The smoothed round trip in microseconds, 0 before the first sample.
    pub(crate) fn smoothed_rtt(&self) -> u32 {
        self.srtt / 8
    }

    /// The retransmission timeout, doubled `backoff` times.
    pub(crate) fn rto_at(&self, profile: &Profile, backoff: u8) -> Nanos {
        let base = if self.srtt == 0 {
            let initial = profile.rto_initial;
            let opening = matches!(self.state, State::SynSent | State::SynReceived);
            if self.has(Marks::SYN_REPEATED) && !opening {
                initial.max(AFTER_SYN_LOSS)
            } else {
                initial
            }
        } else {
            let variation = u64::from(self.rttvar.max(GRANULARITY));
            let margin = variation.max(profile.rto_margin.get() / 1_000);
            let micros = u64::from(self.srtt / 8) + margin;
            Nanos::from_micros(micros).max(profile.rto_min)
        };
        let doubled = base.get().saturating_mul(1 << backoff.min(30));
        Nanos::new(doubled.min(profile.rto_max.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rto_after(samples: &[u32], profile: &Profile) -> u64 {
        let mut tcb = Tcb::CLOSED;
        samples.iter().for_each(|rtt| tcb.rtt_sample(*rtt));
        tcb.rto_at(profile, 0).get() / 1_000
    }

    #[test]
    fn the_timeout_is_that_of_rfc_6298() {
        let profile = Profile { rto_min: Nanos::ZERO, ..Profile::default() };
        assert_eq!(rto_after(&[], &profile), 1_000_000);
        // SRTT = R, RTTVAR = R/2, RTO = R + 4 × R/2.
        assert_eq!(rto_after(&[100_000], &profile), 300_000);
        // RTTVAR = 3/4 × 50 + 1/4 × |100 - 200| = 62.5, SRTT = 7/8 × 100 + 1/8 × 200 = 112.5.
        assert_eq!(rto_after(&[100_000, 200_000], &profile), 112_500 + 4 * 62_500);
        assert_eq!(rto_after(&[100_000], &Profile::default()), 1_000_000, "the least");
        assert_eq!(rto_after(&[u32::MAX; 9], &Profile::default()), 60_000_000, "the most");
        assert_eq!(
            rto_after(&[1; 99], &profile),
            1 + u64::from(GRANULARITY),
            "a tick of the wheel"
        );
    }

    #[test]
    fn a_steady_round_trip_keeps_the_margin() {
        let profile = Profile {
            rto_min: Nanos::ZERO,
            rto_margin: Nanos::from_millis(200),
            ..Profile::default()
        };
        assert_eq!(rto_after(&[100_000; 99], &profile), 300_000);
        assert_eq!(rto_after(&[100_000], &profile), 300_000);
        assert_eq!(rto_after(&[400_000], &profile), 400_000 + 4 * 200_000);
    }

    #[test]
    fn the_timeout_doubles_up_to_its_limit() {
        let profile = Profile::default();
        for (backoff, secs) in [(0, 1), (1, 2), (5, 32), (6, 60), (255, 60)] {
            assert_eq!(Tcb::CLOSED.rto_at(&profile, backoff), Nanos::from_secs(secs));
        }
    }

    #[test]
    fn after_a_lost_syn_the_first_timeout_is_three_seconds() {
        let mut tcb = Tcb::CLOSED;
        tcb.set(Marks::SYN_REPEATED);
        assert_eq!(tcb.rto_at(&Profile::default(), 0), Nanos::from_secs(3));
    }
}
