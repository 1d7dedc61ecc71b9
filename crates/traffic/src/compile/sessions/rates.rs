//! Session starts by a bit rate: how many in a second have so many bits together.

use wirebeat_units::{BitRate, Fault, FrameRate, Layer, Nanos, Rate, fault};

use super::volume::{Exchanged, volumes};
use crate::program::script::SessionGroup;
use crate::scenario::FlowSpec;
use crate::scenario::change::Change;
use crate::scenario::rate::FlowRate;
use crate::scenario::session::SessionSpec;

/// Rates are exact to a session in so long a time.
const EXACT: Nanos = Nanos::from_secs(100_000);

/// The flow whose frames would leave when the sessions of a group start, with all rates as starts in a second.
///
/// # Errors
/// A bit rate of sessions whose length nobody knows before.
pub(super) fn in_sessions(spec: &SessionSpec, group: &SessionGroup) -> Result<FlowSpec, Fault> {
    let mut flow = spec.starts();
    let exchanged = volumes(spec, group).exchanged(spec, group);
    flow.rate = converted(&flow.rate, exchanged.as_ref())?;
    for change in flow.at.values_mut() {
        let Change::To(settings) = change else { continue };
        if let Some(rate) = &mut settings.rate {
            *rate = converted(rate, exchanged.as_ref())?;
        }
    }
    Ok(flow)
}

fn converted(rate: &FlowRate, exchanged: Option<&Exchanged>) -> Result<FlowRate, Fault> {
    let one = |rate: Rate| match rate {
        Rate::Bits(bits, layer) => by_bits(bits, layer, exchanged).map(Rate::Frames),
        other => Ok(other),
    };
    Ok(match rate.clone() {
        FlowRate::Fixed(rate) => FlowRate::Fixed(one(rate)?),
        FlowRate::Steps(mut steps) => {
            let rates = steps.rates.iter().map(|(&at, &rate)| Ok((at, one(rate)?)));
            steps.rates = rates.collect::<Result<indexmap::IndexMap<_, _>, Fault>>()?.into();
            FlowRate::Steps(steps)
        }
        FlowRate::Ramp(mut ramp) => {
            (ramp.from, ramp.to) = (one(ramp.from)?, one(ramp.to)?);
            FlowRate::Ramp(ramp)
        }
        FlowRate::Sine(mut sine) => {
            (sine.mean, sine.amplitude) = (one(sine.mean)?, one(sine.amplitude)?);
            FlowRate::Sine(sine)
        }
    })
}

/// How many sessions have so many bits in a second, both directions together.
fn by_bits(rate: BitRate, layer: Layer, exchanged: Option<&Exchanged>) -> Result<FrameRate, Fault> {
    let Some(exchanged) = exchanged else {
        return Err(fault!(
            "how many bytes a session has is not known before, so no number of sessions has {rate}";
            "give the sizes of both ends (expect-size of HTTP, for example), or count sessions: 1000/s"
        ));
    };
    let bits = exchanged.bits(0, layer) + exchanged.bits(1, layer);
    let sessions = rate.0 as f64 / bits * EXACT.get() as f64 / 1e9;
    if bits <= 0.0 || !(1.0..9e18).contains(&sessions) {
        return Err(fault!(
            "a session has {} bits, and no number of them in a second makes {rate}", bits.round();
            "count sessions: 1000/s"
        ));
    }
    Ok(FrameRate { frames: sessions.round() as u64, per: EXACT })
}
