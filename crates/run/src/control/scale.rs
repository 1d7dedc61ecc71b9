//! A rate by a share more or less: what a key of the live view asks for.
//!
//! The rate that counts is the one that holds when the change takes effect, so that several in a row add up. What it becomes has
//! four digits that matter: nobody reads more of them.

use wirebeat_traffic::scenario::change::Settings;
use wirebeat_traffic::scenario::{Change, FlowRate};
use wirebeat_units::{BitRate, FrameRate, Nanos, Rate, fault};

use super::message::rate_in_words;
use super::{AHEAD, Control, ControlError, locked};

/// What rates of frames are written for when they are not whole: 0.001 of a frame in a second.
const PER: Nanos = Nanos::from_secs(1000);
/// The digits that matter.
const DIGITS: u32 = 4;

impl Control {
    /// Changes the rate of a flow, or of the starts of a group of sessions, to so many per cent of what it is. Returns when that takes
    /// effect, from the start of the run, and the rate in words.
    ///
    /// # Errors
    /// As [`Control::change`]; and a rate that changes with time by itself, or has no limit, has no share.
    pub fn scale(&self, name: &str, percent: u32) -> Result<(Nanos, String), ControlError> {
        let (part, number) = self.find(name)?;
        let of = part.of();
        let at = self.elapsed()?.saturating_add(AHEAD);
        let now = {
            let live = locked(&part.live);
            let part = live.part(number, at).ok_or_else(|| ControlError::Ended(name.to_owned()))?;
            part.phase.flow.rate.clone()
        };
        let FlowRate::Fixed(rate) = now else {
            return Err(ControlError::Scale(fault!(
                "the rate of '{name}' changes with time by itself";
                "give it another with 'wirebeat ctl set'"
            )));
        };
        let rate = scaled(rate, percent).ok_or_else(|| {
            ControlError::Scale(fault!(
                "'{name}' goes as fast as it can";
                "start it with a rate, so that it can change"
            ))
        })?;
        let settings = Settings { rate: Some(rate.into()), ..Settings::default() };
        let at = self.change(name, &Change::To(Box::new(settings)))?;
        Ok((at, rate_in_words(rate, of)))
    }
}

/// So many per cent of a rate; `None` of one without a limit.
fn scaled(rate: Rate, percent: u32) -> Option<Rate> {
    let share = |of: u128| rounded(of.saturating_mul(percent.into()) / 100);
    Some(match rate {
        Rate::Unlimited => return None,
        Rate::Frames(rate) => {
            let frames = u128::from(rate.frames) * u128::from(PER.get());
            let frames = share(frames / u128::from(rate.per.get().max(1)));
            Rate::Frames(FrameRate { frames, per: PER })
        }
        Rate::Bits(BitRate(bits), layer) => Rate::Bits(BitRate(share(bits.into())), layer),
        Rate::LinkShare(ppm) => {
            Rate::LinkShare(u32::try_from(share(ppm.into())).unwrap_or(u32::MAX))
        }
    })
}

/// The digits that matter, of at least 1.
fn rounded(value: u128) -> u64 {
    let digits = value.checked_ilog10().map_or(1, |log| log + 1);
    let unit = 10_u128.pow(digits.saturating_sub(DIGITS));
    let whole = (value + unit / 2) / unit * unit;
    u64::try_from(whole).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: &str, percent: u32) -> Option<String> {
        scaled(rate.parse().unwrap(), percent).map(|rate| rate.to_string())
    }

    #[test]
    fn a_share_of_a_rate_is_one_that_can_be_read() {
        for (rate, percent, expected) in [
            ("1kpps", 110, "1100pps"),
            ("1331pps", 110, "1464pps"),
            ("1pps", 90, "0.9pps"),
            ("1/3s", 110, "0.366pps"),
            ("2Gbps@line", 110, "2200Mbps@line"),
            ("50%", 90, "45%"),
        ] {
            let rate = rate.parse::<Rate>().unwrap();
            let scaled = scaled(rate, percent).unwrap();
            assert_eq!(scaled, expected.parse::<Rate>().unwrap(), "{rate}: {scaled}");
        }
        assert_eq!(of("unlimited", 110), None);
    }

    #[test]
    fn no_rate_falls_to_nothing_or_grows_beyond_all() {
        let mut rate = Rate::Frames(FrameRate { frames: 1, per: Nanos::from_secs(900) });
        for _ in 0..200 {
            rate = scaled(rate, 90).unwrap();
        }
        assert_eq!(rate, Rate::Frames(FrameRate { frames: 1, per: PER }));
        let most = Rate::Bits(BitRate(u64::MAX), wirebeat_units::Layer::Line);
        assert_eq!(scaled(most, 110), Some(most));
        let most = FrameRate { frames: u64::MAX, per: Nanos::new(1) };
        assert!(matches!(scaled(Rate::Frames(most), u32::MAX), Some(Rate::Frames(_))));
    }
}
