//! Units as types: [`Nanos`], [`FrameLen`], [`Bytes`], [`BitRate`], [`Factor`], [`FrameRate`] and [`Rate`].
//!
//! Every quantity that a person writes in a scenario or on the command line is parsed here
//! (`"1.5Mpps"`, `"10Gbps"`, `"64B"`, `"100us"`) and printed the same way; serde uses the same text.
//! A bare number is refused where the unit matters, because guessing a unit is how a test goes wrong
//! by a factor of eight. [`human`] rounds measured values for a reader, and [`printable`] makes foreign text harmless. This crate knows nothing of
//! flows, packets' contents or clocks. To add a unit, add it to the table at the top of its file.

mod bit_rate;
mod bytes;
mod comparison;
mod factor;
mod fault;
mod frame_len;
mod frame_rate;
pub mod human;
mod nanos;
mod parse;
pub mod printable;
mod rate;
mod text;
mod wall_time;

pub use bit_rate::BitRate;
pub use bytes::Bytes;
pub use comparison::Comparison;
pub use factor::Factor;
pub use fault::Fault;
pub use frame_len::{BufferLen, FCS, FrameLen, LINE_OVERHEAD, PacketLen};
pub use frame_rate::FrameRate;
pub use nanos::Nanos;
pub use parse::UnitError;
pub use rate::{Layer, Rate, RateError};
pub use wall_time::WallTime;
