//! Whose clock stamps the frames of a port: the system's, or the card's where that is asked for.
//!
//! Hardware timestamps change what the card is told, so that they are by request, and what a card lacks is said before any
//! traffic. The engines do the stamping (`wirebeat_engine_linux::card`); here is who may, what is asked of which card, and what
//! the report says of it.

use wirebeat_engine::port::CardStamps;
use wirebeat_engine_linux::card::{Card, SharedCard, Wanted};
use wirebeat_netlink::ReceiveStamps;
use wirebeat_report::assemble::Clocks;
use wirebeat_report::model::{HardwareTimestamps, Stats};
use wirebeat_traffic::program::{Flow, Program};
use wirebeat_traffic::scenario::TimestampsChoice;
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::ptp::{PtpCarrier, event};

use crate::engines::{Ability, Choice, Engine, EngineReason, fallback};
use crate::error::RunError;
use crate::ports::ResolvedPort;

/// The engine of a port by which the card can stamp: an automatic choice that cannot becomes 'packet'.
pub(crate) fn engine(
    port: &ResolvedPort,
    choice: Choice,
    timestamps: TimestampsChoice,
) -> Result<Choice, RunError> {
    let engine = choice.engine;
    let stamps = |engine: Engine| engine.can(Ability::HardwareTimestamps);
    if timestamps == TimestampsChoice::Software || stamps(engine) {
        return Ok(choice);
    }
    match fallback(engine, stamps).filter(|_| port.spec.engine.engine().is_none()) {
        Some(next) => {
            let why = format!("the engine '{engine}' has no hardware timestamps");
            Ok(Choice { engine: next, reason: EngineReason::Instead(why) })
        }
        None => Err(RunError::usage(format!(
            "the engine '{engine}' of port '{}' has no hardware timestamps",
            port.name
        ))
        .hint(format!(
            "use the engine {} for them, or '--timestamps software'",
            Engine::names(stamps)
        ))),
    }
}

/// Has the card of a port stamp what is wanted, from now on until the port is dropped. It is asked once.
pub(crate) fn open(port: &ResolvedPort, engine: Engine, wanted: Wanted) -> Result<(), RunError> {
    if port.card.get().is_some() || wanted == Wanted::default() {
        return Ok(());
    }
    let Some(link) = &port.link else {
        return Err(RunError::usage(fault!(
            "port '{}' has no interface, and hardware timestamps are those of its card",
            port.name;
            "name one, or use '--timestamps software'"
        )));
    };
    // a kernel that cannot say has none that we could ask for
    let offered = port.netlink()?.timestamping(link.index).unwrap_or_default();
    let card = port.enter(|| Card::open(engine.name(), &link.name, offered, wanted))??;
    port.card.get_or_init(|| SharedCard::new(card));
    Ok(())
}

/// What a receiver by itself must know of a card that does not stamp all that may arrive.
pub(crate) fn told(port: &ResolvedPort) -> Option<String> {
    let stamps = port.card.get()?.receives();
    (stamps != ReceiveStamps::All).then(|| {
        format!(
            "the card of {} stamps {stamps}: all others are counted, and are in no delay and in no time between arrivals",
            port.interface()
        )
    })
}

/// That a card stamps what a port is going to receive: some do so with messages of PTP only, and nothing else would be
/// measured.
pub(crate) fn check(
    port: &ResolvedPort,
    program: &Program,
    flows: &[&Flow],
) -> Result<Option<String>, RunError> {
    let Some(stamps) = port.card.get().map(|card| card.receives()) else { return Ok(None) };
    let stamped = |flow: &Flow| {
        program.streams(flow.id.into()).iter().all(|stream| {
            let image = stream.frames.frame();
            let mut frame = vec![0; image.longest().size()];
            let len = image.build(0, &mut frame).len as usize;
            let carried = frame.get(..len).and_then(event);
            match stamps {
                ReceiveStamps::All => true,
                ReceiveStamps::Ptp => carried.is_some(),
                ReceiveStamps::PtpOverUdp => carried == Some(PtpCarrier::ByUdp),
                ReceiveStamps::PtpOverEthernet => carried == Some(PtpCarrier::ByEthernet),
                ReceiveStamps::None => false,
            }
        })
    };
    let (all, other): (Vec<&Flow>, Vec<&Flow>) = flows.iter().partition(|flow| stamped(flow));
    match (all.is_empty(), other.first()) {
        (_, None) => Ok(None),
        (false, Some(_)) => Ok(told(port)),
        (true, Some(first)) => Err(RunError::machine(fault!(
            "the card of {} stamps {stamps}, and those of flow '{}' are none",
            port.interface(), first.name;
            "use '--timestamps software', or a card that stamps all frames ('wirebeat \
             doctor' lists what cards offer)"
        ))),
    }
}

/// What the report says of a port's card.
pub(crate) fn of_station(
    port: &ResolvedPort,
    stamps: Option<&CardStamps>,
) -> Option<HardwareTimestamps> {
    let (card, stamps) = (port.card.get()?, stamps?);
    let clock = card.clock();
    let (low, high) = clock.drift_ppb();
    let ppm = |ppb: i64| ppb as f64 / 1_000.0;
    let receives = stamps.received + stamps.unstamped > 0 || stamps.asked == 0;
    Some(HardwareTimestamps {
        clock: clock.path().to_owned(),
        clock_name: clock.name().map(str::to_owned),
        read_by: clock.read_by().to_owned(),
        conversion_bound_ns: stamps.error.get(),
        drift_low_ppm: ppm(low),
        drift_high_ppm: ppm(high),
        steps: clock.steps(),
        receive: receives.then(|| card.receives().to_string()),
        received: stamps.received,
        received_unstamped: stamps.unstamped,
        sent_asked: stamps.asked,
        sent: stamps.sent,
        wire_send_lateness_ns: Stats::of(&stamps.send_lateness),
        hand_over_to_wire_ns: Stats::of(&stamps.hand_over),
    })
}

/// How the clocks of both ends relate if arrivals were stamped by these cards: their difference to the system's clock is
/// known up to a bound.
pub(crate) fn clocks<'a>(
    clocks: Clocks,
    receivers: impl Iterator<Item = &'a HardwareTimestamps>,
) -> Clocks {
    let Some(widest) = receivers.max_by_key(|card| card.conversion_bound_ns) else { return clocks };
    let card = format!("arrivals are stamped by a card's clock, {}", widest.clock);
    let more = Nanos::new(widest.conversion_bound_ns);
    match clocks {
        Clocks::Same => Clocks::Bounded { bound: more, how: card },
        Clocks::Bounded { bound, how } => {
            Clocks::Bounded { bound: bound.saturating_add(more), how: format!("{how}; {card}") }
        }
        unbounded => unbounded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(bound: u64) -> HardwareTimestamps {
        let clock = format!("/dev/ptp{bound}");
        HardwareTimestamps { clock, conversion_bound_ns: bound, ..HardwareTimestamps::default() }
    }

    #[test]
    fn delays_are_as_uncertain_as_the_widest_bound_of_a_card() {
        let cards = [card(20), card(70), card(30)];
        let of = |relation| clocks(relation, cards.iter());
        let how = "arrivals are stamped by a card's clock, /dev/ptp70".to_owned();
        let bound = Nanos::new(70);
        assert_eq!(of(Clocks::Same), Clocks::Bounded { bound, how: how.clone() });
        let ntp = Clocks::Bounded { bound: Nanos::new(1_000), how: "both follow NTP".to_owned() };
        let both =
            Clocks::Bounded { bound: Nanos::new(1_070), how: format!("both follow NTP; {how}") };
        assert_eq!(of(ntp.clone()), both);
        let unbounded = Clocks::Unbounded("nobody knows".to_owned());
        assert_eq!(of(unbounded.clone()), unbounded);
        assert_eq!(clocks(ntp.clone(), [].iter()), ntp);
    }
}
