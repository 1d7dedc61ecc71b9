//! How fast a flow sends: frames per second, bits per second at a layer, or a share of the link.

use std::fmt;
use std::str::FromStr;

use crate::bit_rate::{self, BIT_RATE};
use crate::frame_rate::{self, FRAME_RATE};
use crate::parse::{Bare, Decimal, Misfit, Quantity, unknown_unit};
use crate::text::serde_as_text;
use crate::{BitRate, FrameRate, UnitError};

const RATE: Quantity = Quantity {
    what: "a rate",
    example: "100kpps, 2Gbps, 2Gbps@line, 50% or unlimited",
    units: &[],
    bare: Bare::Refused,
};

const LAYER: Quantity = Quantity {
    what: "a layer",
    example: "line, frame or payload",
    units: &[],
    bare: Bare::Refused,
};

/// A whole in parts per million.
const WHOLE_PPM: u32 = 1_000_000;

/// Which bytes a bit rate counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layer {
    /// The frame, preamble, start delimiter and inter-packet gap (RFC 2544's link utilisation).
    Line,
    /// The Ethernet frame with header and FCS. The default.
    #[default]
    Frame,
    /// The bytes after the transport header.
    Payload,
}

/// How fast a flow sends.
///
/// Read from what [`FrameRate`] and [`BitRate`] are read from, `"50%"` of the link, and `"unlimited"`
/// or `"max"`. A bit rate counts frames unless a [`Layer`] follows it: `"2Gbps@line"`, `"2Gbps line"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rate {
    /// As fast as the engine can.
    #[default]
    Unlimited,
    /// Frames per second.
    Frames(FrameRate),
    /// Bits per second at a layer.
    Bits(BitRate, Layer),
    /// Parts per million of the link's speed, counted on the line.
    LinkShare(u32),
}

/// Why a [`Rate`] does not say how many frames per second it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// It is a share of a link whose speed is not known.
    #[error("a share of the link needs a link with a known speed")]
    NoLinkSpeed,
    /// It counts payload, and the frames carry none.
    #[error("a payload bit rate needs frames with payload")]
    NoPayload,
}

impl Rate {
    /// The frame rate that this rate means, as frames in so many nanoseconds: for `frames` frames that have
    /// together so many bytes on the line, with FCS, and of payload, on a link of `link` bits per second.
    ///
    /// `None` for [`Rate::Unlimited`].
    pub fn frames_of(
        &self,
        frames: u64,
        [line, frame, payload]: [u64; 3],
        link: Option<BitRate>,
    ) -> Result<Option<(u128, u128)>, RateError> {
        let bits = |rate: u128, bytes: u64| {
            // rate * frames / (8 * bytes) frames per second, kept as an exact fraction.
            let per = u128::from(bytes) * 8 * 1_000_000_000;
            Some((rate * u128::from(frames), per))
        };
        match *self {
            Rate::Unlimited => Ok(None),
            Rate::Frames(rate) => Ok(Some((rate.frames.into(), rate.per.get().into()))),
            Rate::Bits(rate, Layer::Line) => Ok(bits(rate.0.into(), line)),
            Rate::Bits(rate, Layer::Frame) => Ok(bits(rate.0.into(), frame)),
            Rate::Bits(_, Layer::Payload) if payload == 0 => Err(RateError::NoPayload),
            Rate::Bits(rate, Layer::Payload) => Ok(bits(rate.0.into(), payload)),
            Rate::LinkShare(ppm) => match link {
                Some(BitRate(speed)) if speed > 0 => {
                    let rate = u128::from(speed) * u128::from(ppm) / u128::from(WHOLE_PPM);
                    Ok(bits(rate, line))
                }
                _ => Err(RateError::NoLinkSpeed),
            },
        }
    }
}

impl FromStr for Layer {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            "line" => Ok(Layer::Line),
            "frame" => Ok(Layer::Frame),
            "payload" => Ok(Layer::Payload),
            "" => Err(LAYER.refuse(text, "it is empty")),
            _ => Err(LAYER.refuse(text, "bit rates are counted at three layers only")),
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Layer::Line => "line",
            Layer::Frame => "frame",
            Layer::Payload => "payload",
        })
    }
}

impl FromStr for Rate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        if matches!(text.trim(), "unlimited" | "max") {
            return Ok(Rate::Unlimited);
        }
        let (number, rest) = RATE.split(text)?;
        if rest.starts_with('/') {
            return frame_rate::read(text, number, rest).map(Rate::Frames);
        }
        let (unit, layer) = split_layer(rest);
        if BIT_RATE.has(unit) {
            let layer = layer.map_or(Ok(Layer::Frame), str::parse)?;
            return Ok(Rate::Bits(bit_rate::read(text, number, unit)?, layer));
        }
        if let Some(layer) = layer {
            return Err(RATE.refuse(text, format!("only a bit rate has a layer ('{layer}')")));
        }
        match unit {
            "" => Err(RATE.refuse(text, "it has no unit")),
            "%" => share(text, number).map(Rate::LinkShare),
            _ if FRAME_RATE.has(unit) => frame_rate::read(text, number, unit).map(Rate::Frames),
            _ if bit_rate::counts_bytes(unit) => Err(RATE.refuse(text, bit_rate::BYTES)),
            _ => {
                let tables = [FRAME_RATE.units, BIT_RATE.units, &[("%", 1)]];
                Err(RATE.refuse(text, unknown_unit(unit, &tables)))
            }
        }
    }
}

/// Splits `"Gbps@line"` or `"Gbps line"` into the unit and the layer.
fn split_layer(unit: &str) -> (&str, Option<&str>) {
    let end = unit.find(|c: char| c == '@' || c.is_whitespace()).unwrap_or(unit.len());
    let (unit, layer) = unit.split_at(end);
    match layer.trim_start() {
        "" => (unit, None),
        layer => (unit, Some(layer.strip_prefix('@').unwrap_or(layer))),
    }
}

/// A percentage as parts per million.
fn share(text: &str, percent: Decimal) -> Result<u32, UnitError> {
    let ppm = percent.times(u64::from(WHOLE_PPM / 100));
    match ppm.map(u32::try_from) {
        Ok(Ok(0)) => Err(RATE.refuse(text, "it is zero").instead("leave the flow out instead")),
        Ok(Ok(ppm)) if ppm <= WHOLE_PPM => Ok(ppm),
        Err(Misfit::Fraction) => Err(RATE.refuse(text, "a share has steps of 0.0001%")),
        Ok(_) | Err(Misfit::TooLarge) => {
            let why = "a link cannot carry more than 100%";
            Err(RATE.refuse(text, why).instead("'unlimited' asks for all"))
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Unlimited => f.pad("unlimited"),
            Rate::Frames(rate) => rate.fmt(f),
            Rate::Bits(rate, Layer::Frame) => rate.fmt(f),
            Rate::Bits(rate, layer) => f.pad(&format!("{rate}@{layer}")),
            Rate::LinkShare(ppm) => f.pad(&format!("{}%", Decimal::new((*ppm).into(), 4))),
        }
    }
}

serde_as_text!(Layer, LAYER.what);
serde_as_text!(Rate, RATE.what);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Nanos;

    fn pps(frames: u64) -> FrameRate {
        FrameRate { frames, per: Nanos::from_secs(1) }
    }

    #[test]
    fn rates_are_read_in_every_form() {
        let gbps = |gbps: u64| BitRate(gbps * 1_000_000_000);
        for (text, rate) in [
            ("100kpps", Rate::Frames(pps(100_000))),
            ("1 / 10 s", Rate::Frames(FrameRate { frames: 1, per: Nanos::from_secs(10) })),
            ("2Gbps", Rate::Bits(gbps(2), Layer::Frame)),
            ("2Gbps frame", Rate::Bits(gbps(2), Layer::Frame)),
            ("2Gbps line", Rate::Bits(gbps(2), Layer::Line)),
            ("2 Gbit/s @ line", Rate::Bits(gbps(2), Layer::Line)),
            ("2Gbps@payload", Rate::Bits(gbps(2), Layer::Payload)),
            ("50%", Rate::LinkShare(500_000)),
            ("0.1 %", Rate::LinkShare(1_000)),
            ("100%", Rate::LinkShare(1_000_000)),
            ("unlimited", Rate::Unlimited),
            ("max", Rate::Unlimited),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
    }

    #[test]
    fn rates_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("1000", "it has no unit"),
            ("", "it is empty"),
            ("-5pps", "it is negative"),
            ("2Gbps wire", "bit rates are counted at three layers only"),
            ("2Gbps@", "it is empty"),
            ("2Gbps@@line", "bit rates are counted at three layers only"),
            ("100kpps line", "only a bit rate has a layer ('line')"),
            ("0%", "it is zero"),
            ("0.00001%", "a share has steps of 0.0001%"),
            ("101%", "a link cannot carry more than 100%"),
            ("9999999999999999999999%", "a link cannot carry more than 100%"),
            ("1.5mpps", "there is no unit 'mpps', and case matters: did you mean 'Mpps'?"),
            ("2gbps", "there is no unit 'gbps', and case matters: did you mean 'Gbps'?"),
            ("100MB/s", "'B' is bytes, and a bit rate counts bits: 1 MB/s is written 8Mbps"),
            ("100MBps@line", "only a bit rate has a layer ('line')"),
        ] {
            assert_eq!(text.parse::<Rate>().expect_err(text).why, why, "{text}");
        }
        let error = "5furlongs".parse::<Rate>().expect_err("no unit of ours").to_string();
        assert!(
            error.contains("among pps, kpps, Mpps, Gpps, bps, kbps, Mbps, Gbps, Tbps, %"),
            "{error}"
        );
    }

    #[test]
    fn rates_print_as_they_are_read() {
        for text in ["unlimited", "12.5kpps", "1/3ns", "2Gbps", "1.5Mbps@line", "0.1%", "33.3333%"]
        {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn serde_reads_text_and_no_bare_number() {
        let read = |json| serde_json::from_str::<Rate>(json).map_err(|e| e.to_string());
        assert_eq!(read("\"50%\""), Ok(Rate::LinkShare(500_000)));
        assert!(
            read("1000").expect_err("bare").starts_with("'1000' is not a rate: it has no unit")
        );
        assert_eq!(serde_json::to_string(&Rate::LinkShare(1)).expect("json"), "\"0.0001%\"");
        assert_eq!(serde_json::from_str::<Layer>("\"line\"").ok(), Some(Layer::Line));
    }

    #[test]
    fn a_bit_rate_means_frames_by_the_layer_it_counts() {
        let of = |rate: &str| {
            let rate: Rate = rate.parse().expect(rate);
            let rate = rate.frames_of(1, [84, 64, 18], Some(BitRate(10_000_000_000)));
            let (frames, per) = rate.expect("a rate").expect("a limit");
            FrameRate { frames: frames as u64, per: Nanos::new(per as u64) }
        };
        // 10 Gbit/s of 64-byte frames are 14.88 million a second (RFC 2544's arithmetic).
        let line_rate =
            FrameRate { frames: 10_000_000_000, per: Nanos::new(84 * 8 * 1_000_000_000) };
        assert_eq!(of("10Gbps@line"), line_rate);
        assert_eq!(of("100%"), line_rate);
        assert_eq!(of("512bps"), pps(1));
        assert_eq!(of("144bps@payload"), pps(1));
        // Three frames of 64, 64 and 1518 bytes.
        let mixed: Rate = "13168bps".parse().expect("a rate");
        assert_eq!(
            mixed.frames_of(3, [1706, 1646, 1508], None),
            Ok(Some((39_504, 13_168_000_000_000)))
        );
    }

    #[test]
    fn what_cannot_be_turned_into_frames_says_why() {
        let share = Rate::LinkShare(500_000);
        for link in [None, Some(BitRate(0))] {
            let rate = share.frames_of(1, [84, 64, 18], link);
            assert_eq!(rate, Err(RateError::NoLinkSpeed), "{link:?}");
        }
        let payload = Rate::Bits(BitRate(1), Layer::Payload);
        assert_eq!(payload.frames_of(1, [84, 64, 0], None), Err(RateError::NoPayload));
        assert_eq!(Rate::Unlimited.frames_of(1, [84, 64, 0], None), Ok(None));
    }

    fn any_rate() -> impl Strategy<Value = Rate> {
        let layer = prop_oneof![Just(Layer::Line), Just(Layer::Frame), Just(Layer::Payload)];
        let frames = (1..=u64::MAX, 1..=u64::MAX);
        prop_oneof![
            Just(Rate::Unlimited),
            frames
                .prop_map(|(frames, per)| Rate::Frames(FrameRate { frames, per: Nanos::new(per) })),
            (1..=u64::MAX, layer).prop_map(|(bits, layer)| Rate::Bits(BitRate(bits), layer)),
            (1..=WHOLE_PPM).prop_map(Rate::LinkShare),
        ]
    }

    proptest! {
        #[test]
        fn every_rate_survives_printing_and_reading(rate in any_rate()) {
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = text.parse::<Rate>();
        }
        #[test]
        fn almost_rates_are_read_or_refused(text in "[0-9.]{0,40} ?[kMGTB%/a-z@ ]{0,8}") {
            let _ = text.parse::<Rate>();
        }
    }
}
