//! D-ITG's models of applications (src/ITGSend/traffic.cpp of 2.8.1).

use indexmap::IndexMap;
use wirebeat_traffic::distribution::cauchy::Cauchy;
use wirebeat_traffic::distribution::gamma::Gamma;
use wirebeat_traffic::distribution::normal::Normal;
use wirebeat_traffic::distribution::pareto::Pareto;
use wirebeat_traffic::distribution::uniform::Uniform;
use wirebeat_traffic::distribution::{Deviation, Distribution};
use wirebeat_traffic::scenario::FlowRate;
use wirebeat_traffic::scenario::size::Size;
use wirebeat_units::{Bytes, FrameRate, Nanos, Rate, fault};

use super::distribution::Gaps;
use super::sizes::SIZES;
use super::words::Words;
use crate::ScriptError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Model {
    Telnet,
    Dns,
    Quake3,
    CounterStrikeActive,
    CounterStrikeIdle,
    Voip,
}

const MODELS: &[(&str, Model)] = &[
    ("Telnet", Model::Telnet),
    ("DNS", Model::Dns),
    ("Quake3", Model::Quake3),
    ("CSa", Model::CounterStrikeActive),
    ("CSi", Model::CounterStrikeIdle),
    ("VoIP", Model::Voip),
];

/// Sizes from a smallest one up, and the weight of each.
type Weights = (u64, &'static [u32]);

/// 21 bytes and up: 65, 13, 7, 5, 3, four times 1 and six times 0.5 %.
const TELNET: Weights = (21, &[650, 130, 70, 50, 30, 10, 10, 10, 10, 5, 5, 5, 5, 5, 5]);
/// Two normal distributions, 0.3732 N(34.8352, 4.3915) + 0.6268 N(49.4904, 3.6186), cut to whole bytes.
const COUNTER_STRIKE_ACTIVE: Weights = (
    17,
    &[
        1, 3, 8, 17, 34, 67, 123, 215, 357, 563, 843, 1200, 1622, 2083, 2539, 2939, 3231, 3375,
        3349, 3161, 2846, 2462, 2085, 1798, 1686, 1821, 2252, 2981, 3944, 5007, 5981, 6664, 6902,
        6633, 5912, 4886, 3743, 2658, 1750, 1068, 604, 317, 154, 69, 29, 11, 4, 1,
    ],
);
const COUNTER_STRIKE_IDLE: Weights = (27, &[8312, 18, 453, 195, 879, 24, 106, 0, 13]);

const STUDENT: &str = "D-ITG draws the times from a Student distribution; they are drawn from a Cauchy \
                       distribution with the same location and scale, which is about as heavy-tailed";
const MIXED: &str = "D-ITG draws six times in ten from an exponential distribution of 4.29 ms and waits \
                     10.75 ms otherwise; the times are drawn from a gamma distribution with the same mean \
                     and deviation";

/// What a model sends.
pub(super) struct Traffic {
    pub gaps: Gaps,
    pub size: SizeOf,
    /// The protocol that it is bound to; `None`: any.
    pub protocol: Option<super::Protocol>,
}

pub(super) enum SizeOf {
    Written(Size),
    /// With what the script calls it.
    Drawn(Distribution<Bytes>, String),
}

impl Model {
    pub fn find(word: &str) -> Option<Model> {
        MODELS.iter().find(|(name, _)| *name == word).map(|(_, model)| *model)
    }

    /// What it sends; its own options come next.
    pub fn read(self, words: &mut Words<'_>) -> Result<Traffic, ScriptError> {
        use super::Protocol;
        let udp = Some(Protocol::Udp);
        let ns = |ms: f64| Nanos::new((ms * 1e6) as u64);
        Ok(match self {
            Model::Telnet => Traffic {
                gaps: Gaps::of(Distribution::Pareto(Pareto { shape: 0.95, scale: Some(ns(1.1)) })),
                size: mix(TELNET),
                protocol: Some(Protocol::Tcp),
            },
            Model::Dns => {
                let rate = FrameRate { frames: 14, per: Nanos::from_secs(25) };
                let distribution = Uniform { min: Bytes::new(100), max: Bytes::new(319) };
                Traffic {
                    gaps: Gaps { rate: FlowRate::Fixed(Rate::Frames(rate)), ..Gaps::default() },
                    size: SizeOf::Drawn(Distribution::Uniform(distribution), "DNS".to_owned()),
                    protocol: None,
                }
            }
            Model::Quake3 => {
                // Mean 6.874 ms, variance 21.06 ms².
                let gaps =
                    Gaps::of(Distribution::Gamma(Gamma { shape: 2.244, scale: Some(ns(3.0633)) }));
                let deviation = Deviation::Amount(Bytes::new(3));
                let distribution = Normal { mean: Some(Bytes::new(64)), deviation };
                Traffic {
                    gaps: Gaps { nearly: Some(MIXED), ..gaps },
                    size: SizeOf::Drawn(Distribution::Normal(distribution), "Quake3".to_owned()),
                    protocol: udp,
                }
            }
            Model::CounterStrikeActive => Traffic {
                gaps: student(ns(41.6994), ns(0.104821)),
                size: mix(COUNTER_STRIKE_ACTIVE),
                protocol: udp,
            },
            Model::CounterStrikeIdle => Traffic {
                gaps: student(ns(41.6858), ns(0.0694393)),
                size: mix(COUNTER_STRIKE_IDLE),
                protocol: udp,
            },
            Model::Voip => Traffic { protocol: udp, ..voip(words)? },
        })
    }
}

fn student(location: Nanos, scale: Nanos) -> Gaps {
    let gaps = Gaps::of(Distribution::Cauchy(Cauchy { location, scale }));
    Gaps { nearly: Some(STUDENT), ..gaps }
}

fn mix((first, weights): Weights) -> SizeOf {
    let sizes = (first..).zip(weights).filter(|(_, weight)| **weight > 0);
    let sizes: IndexMap<_, _> =
        sizes.filter_map(|(bytes, weight)| Some((SIZES.length(bytes)?, *weight))).collect();
    SizeOf::Written(Size::Mix(sizes.into()))
}

/// A codec: bytes of a frame, frames of a packet, packets per second.
type Codec = (u64, u64, u64);

const CODECS: &[(&str, Codec)] = &[
    ("G.711.1", (80, 1, 100)),
    ("G.711.2", (80, 2, 50)),
    ("G.729.2", (10, 2, 50)),
    ("G.729.3", (10, 3, 33)),
    ("G.723.1", (30, 1, 26)),
];

/// Bytes of the header before the frames.
const HEADERS: &[(&str, u64)] = &[("RTP", 12), ("CRTP", 2)];

fn voip(words: &mut Words<'_>) -> Result<Traffic, ScriptError> {
    fn named<T: Copy>(table: &[(&str, T)]) -> impl Fn(&str) -> Option<T> {
        move |word| table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    }
    let ((frame, frames, packets), mut header) = ((80, 1, 100), 12);
    let (mut codec, mut detects_activity) = ((frame, frames, packets), false);
    while let Some(option) = words.option() {
        match option {
            "-x" => {
                let what = "a codec: G.711.1, G.711.2, G.729.2, G.729.3 or G.723.1";
                codec = words.value(what, named(CODECS))?;
            }
            "-h" => header = words.value("RTP or CRTP", named(HEADERS))?,
            "-VAD" => detects_activity = true,
            _ => {
                return Err(words.wrong(
                    fault!("VoIP has the options -x, -h and -VAD"; "write others before it"),
                ));
            }
        }
    }
    let (frame, frames, packets) = codec;
    // Voice activity detection makes packets shorter, and cut to whole bytes, not rarer.
    let voice = frame * frames * if detects_activity { 65 } else { 100 } / 100;
    let length =
        SIZES.length(voice + header).ok_or_else(|| words.wrong("the packets are too long"))?;
    let rate = FrameRate { frames: packets, per: Nanos::from_secs(1) };
    Ok(Traffic {
        gaps: Gaps { rate: FlowRate::Fixed(Rate::Frames(rate)), ..Gaps::default() },
        size: SizeOf::Written(Size::Fixed(length)),
        protocol: None,
    })
}
