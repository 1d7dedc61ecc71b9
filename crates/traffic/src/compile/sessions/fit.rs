//! What cannot be of sessions of several groups, or of both ends, together: addresses that both ends have, servers that two groups have,
//! and more bits than a link carries.

use std::collections::BTreeMap;

use wirebeat_units::{BitRate, Layer, Nanos, Rate, fault, human};

use super::pauses::pauses;
use super::volume::volumes;
use crate::engines::Engine;
use crate::program::script::{SessionGroup, Sessions};
use crate::scenario::{Invalid, KeyPath, Scenario};
use crate::values::session::StackChoice;

/// Sessions that start for less time than this are a burst, for which a link takes longer, and which it carries all the same.
const BURST: Nanos = Nanos::from_secs(1);

/// What the scenario itself says: that ends are apart, and that links whose speed it gives carry what is asked.
pub(super) fn check(scenario: &Scenario, sessions: &Sessions) -> Result<(), Invalid> {
    sessions.groups.iter().try_for_each(apart)?;
    accepted_apart(&sessions.groups)?;
    links(scenario, sessions, |port| {
        let spec = scenario.ports.get(port)?;
        if spec.engine.engine().is_some_and(Engine::is_virtual) {
            Some(spec.cable.rate)
        } else {
            spec.speed
        }
    })
}

/// That no address of a group with both ends here, whose hosts are ours, is at both.
fn apart(group: &SessionGroup) -> Result<(), Invalid> {
    if group.stack != StackChoice::Own || !group.both_ends {
        return Ok(());
    }
    let (clients, servers) = (&group.clients.pool.addresses, &group.servers.pool.addresses);
    let Some(address) = clients.common(servers) else { return Ok(()) };
    let at = KeyPath::root("sessions").key(&group.name).key("clients").key("addresses");
    Err(at.invalid(fault!(
        "{address} is an address of its clients and of its servers, and a host does not speak with itself over a link";
        "give both ends addresses of their own"
    )))
}

/// That of each new session it is known of which group it is: no two groups of a stack accept sessions at one address and port.
///
/// # Errors
/// The later of two groups that do.
pub fn accepted_apart(groups: &[SessionGroup]) -> Result<(), Invalid> {
    let mut seen: BTreeMap<_, Vec<&SessionGroup>> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.server.is_some()) {
        let pool = &group.servers.pool;
        let place = (&group.to, group.stack == StackChoice::Own, group.transport as u8);
        let before = seen.entry(place).or_default();
        if let Some(other) = before.iter().find(|other| pool.overlaps(&other.servers.pool)) {
            let at = KeyPath::root("sessions").key(&group.name).key("servers");
            return Err(at.invalid(fault!(
                "some of its sessions would be accepted where those of '{}' are", other.name;
                "give each group addresses or ports of its own"
            )));
        }
        before.push(group);
    }
    Ok(())
}

/// That no port is asked to send more on its line than `speed` says that it carries, on average as long as sessions start. Groups whose data
/// or starts nobody knows before are left out.
///
/// # Errors
/// The port whose line carries less, with what fits.
pub fn links(
    scenario: &Scenario,
    sessions: &Sessions,
    speed: impl Fn(&str) -> Option<BitRate>,
) -> Result<(), Invalid> {
    let mut offered: BTreeMap<&str, f64> = BTreeMap::new();
    for group in &sessions.groups {
        let Some([to_server, to_client]) = bits_per_second(scenario, sessions, group) else {
            continue;
        };
        for (port, bits) in [(&group.from, to_server), (&group.to, to_client)] {
            if let Some(port) = port {
                *offered.entry(port).or_default() += bits;
            }
        }
    }
    for (port, bits) in offered {
        let Some(carried) = speed(port).map(|speed| speed.0 as f64).filter(|speed| bits > *speed)
        else {
            continue;
        };
        // a little less, since it is shown in three digits
        let fits = 0.99 * carried / bits;
        let remedy = match &scenario.mix {
            Some(mix) => {
                let most = match mix.rate {
                    Rate::Frames(rate) => {
                        format!("{}/s", human::number(rate.per_second() * fits))
                    }
                    // of another kind there is none ([`Scenario::check`])
                    Rate::Bits(rate, _) => human::bit_rate(rate.0 as f64 * fits),
                    _ => human::bit_rate(carried),
                };
                format!("lower 'mix.rate' to {most} or less")
            }
            None => format!("lower their rates to {} % or less", human::number(100.0 * fits)),
        };
        return Err(KeyPath::port(port).invalid(fault!(
            "sessions would send {} from here on the line, which carries {}",
            human::bit_rate(bits),
            human::bit_rate(carried);
            "{remedy}"
        )));
    }
    Ok(())
}

/// Bits a second on the line to the server and to the client, as long as the sessions of a group start and last.
fn bits_per_second(
    scenario: &Scenario,
    sessions: &Sessions,
    group: &SessionGroup,
) -> Option<[f64; 2]> {
    let flow = group.starts?;
    let spec = &*scenario.with_share(&group.name, scenario.sessions.get(&group.name)?);
    let exchanged = volumes(spec, group).exchanged(spec, group)?;
    let each = [0, 1].map(|way| exchanged.bits(way, Layer::Line));
    let rate = match sessions.starts.under_way(flow, group.end) {
        Some(time) if group.end < Nanos::MAX || group.count < u64::MAX => {
            if time.span() < BURST {
                return None;
            }
            time.frames / (time.span().get() as f64 / 1e9 + pauses(spec, group))
        }
        _ => sessions.starts.offered(flow)?.0.per_second(),
    };
    Some(each.map(|bits| bits * rate))
}
