//! Captures as templates: how many copies of what is in a capture start, and who the two ends of each copy are.
//!
//! A copy is played packet by packet and without a stack: its bytes are those of the capture but for addresses, ports and
//! checksums. Starts are said in the words of flows, the ends in those of sessions.

use std::num::{NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Factor, Fault, FrameRate, Nanos, Rate, fault};

use super::Replay;
use crate::scenario::departures::Departures;
use crate::scenario::rate::FlowRate;
use crate::scenario::schema::{FactorText, TimeText};
use crate::scenario::session::{
    AddressPool, AddressRange, PoolOrder, PortPool, is_one, one, per_second,
};
use crate::scenario::{FlowSpec, is_default};
use crate::values::gcd;
use crate::values::session::Pool;

/// Copies of a capture: when they start, and between whom they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Copies {
    /// How many copies start in a second, for example 1000/s. Default: as `departures` say.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "per_second")]
    pub rate: FlowRate,
    /// How many times as many start as `rate` says.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "FactorText")]
    pub multiply: Factor,
    /// How the times between starts vary. Default: constant.
    #[serde(default, skip_serializing_if = "is_default")]
    pub departures: Departures,
    /// Copies that start together; the pause after them keeps the mean rate.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub burst: NonZeroU32,
    /// No more copies than this.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: Option<NonZeroU64>,
    /// The addresses and ports in the place of the client's. Default: the address of the capture, and ports 1024-65535.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clients: CopyClients,
    /// The addresses in the place of the server's. Default: the address of the capture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub servers: CopyServers,
    /// How many copies in turn are between one client and one server address, each from other ports of the client.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub per_pair: NonZeroU32,
    /// How many different addresses and ports of both ends there are; then the first come again. Default: as many as the pools have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tuples: Option<NonZeroU64>,
    /// Whether clients have the ports of the capture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub keep_ports: bool,
    /// The time from a packet to the next of the same end, instead of that of the capture.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub gap: Option<Nanos>,
    /// The time from a packet to the answer of the other end, instead of that of the capture.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub turnaround: Option<Nanos>,
    /// A shorter time from a packet to the next becomes this.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "Option<TimeText>")]
    pub min_gap: Option<Nanos>,
}

/// The addresses and ports of the clients of copies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CopyClients {
    /// Its addresses: `10.0.1.1`, `10.0.1.0/24`, `10.0.1.1-10.0.1.9`, or a list.
    #[serde(skip_serializing_if = "AddressPool::is_empty")]
    pub addresses: AddressPool,
    /// Its ports: `80`, `1024-65535`, or a list.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Option<PortPool>,
    /// In which order copies take them. Default: in turn.
    #[serde(skip_serializing_if = "is_default")]
    pub order: PoolOrder,
}

/// The addresses of the servers of copies, which have the ports of the capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CopyServers {
    /// Its addresses: `10.0.1.1`, `10.0.1.0/24`, `10.0.1.1-10.0.1.9`, or a list.
    #[serde(skip_serializing_if = "AddressPool::is_empty")]
    pub addresses: AddressPool,
    /// In which order copies take them. Default: in turn.
    #[serde(skip_serializing_if = "is_default")]
    pub order: PoolOrder,
}

impl CopyClients {
    /// What copies take addresses and ports from.
    pub(crate) fn pool(&self) -> Pool {
        let (addresses, ports) = (self.addresses.clone(), self.ports.clone());
        Pool { addresses, ports, order: self.order, macs: None }
    }
}

impl CopyServers {
    /// What copies take addresses from.
    pub(crate) fn pool(&self) -> Pool {
        Pool { addresses: self.addresses.clone(), ports: None, order: self.order, macs: None }
    }
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            rate: FlowRate::default(),
            multiply: Factor::ONE,
            departures: Departures::default(),
            burst: one(),
            count: None,
            clients: CopyClients::default(),
            servers: CopyServers::default(),
            per_pair: one(),
            tuples: None,
            keep_ports: false,
            gap: None,
            turnaround: None,
            min_gap: None,
        }
    }
}

impl Copies {
    /// The flow whose frames would leave when copies start, from its beginning on.
    ///
    /// # Errors
    /// A rate that so many times is out of range.
    pub(crate) fn starts(&self) -> Result<FlowSpec, Fault> {
        Ok(FlowSpec {
            rate: self.multiplied()?,
            departures: self.departures.clone(),
            burst: self.burst,
            count: self.count,
            ..FlowSpec::from_port(String::new())
        })
    }

    /// The rate with the factor.
    fn multiplied(&self) -> Result<FlowRate, Fault> {
        let times = |rate: Rate| match rate {
            Rate::Frames(rate) => multiplied(rate, self.multiply).map(Rate::Frames),
            other => Ok(other),
        };
        if self.multiply == Factor::ONE {
            return Ok(self.rate.clone());
        }
        Ok(match self.rate.clone() {
            FlowRate::Fixed(rate) => FlowRate::Fixed(times(rate)?),
            FlowRate::Steps(mut steps) => {
                let rates = steps.rates.iter().map(|(&at, &rate)| Ok((at, times(rate)?)));
                steps.rates = rates.collect::<Result<indexmap::IndexMap<_, _>, Fault>>()?.into();
                FlowRate::Steps(steps)
            }
            FlowRate::Ramp(mut ramp) => {
                (ramp.from, ramp.to) = (times(ramp.from)?, times(ramp.to)?);
                FlowRate::Ramp(ramp)
            }
            FlowRate::Sine(mut sine) => {
                (sine.mean, sine.amplitude) = (times(sine.mean)?, times(sine.amplitude)?);
                FlowRate::Sine(sine)
            }
        })
    }

    /// What is invalid, and the key; parts of a key are separated by dots.
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        self.rate.check().map_err(|why| ("rate", why))?;
        self.rate.each(counts_copies).map_err(|why| ("rate", why))?;
        self.departures.check().map_err(|why| ("departures", why))?;
        let starts = self.starts().map_err(|why| ("multiply", why))?;
        if self.multiply != Factor::ONE && self.rate.is_unlimited() {
            return Err((
                "multiply",
                fault!("'multiply' needs a rate"; "give a 'rate', for example 1000/s"),
            ));
        }
        if starts.is_unlimited() && self.count.is_none() {
            return Err((
                "rate",
                fault!("nothing says how many copies start"; "give a 'rate' such as 1000/s, or a 'count'"),
            ));
        }
        self.check_ends()?;
        match (self.gap.is_some() && self.turnaround.is_some(), self.min_gap) {
            (true, Some(_)) => Err((
                "min-gap",
                fault!("'gap' and 'turnaround' say all times"; "leave one of the three out"),
            )),
            _ => Ok(()),
        }
    }

    fn check_ends(&self) -> Result<(), (&'static str, Fault)> {
        let pools = [("clients", self.clients.pool()), ("servers", self.servers.pool())];
        for (key, pool) in pools {
            pool.check().map_err(|(_, why)| (key, why))?;
            let of_no_host = |range: &AddressRange| Some((*range, range.of_no_host(false)?));
            if let Some((range, what)) = pool.addresses.0.iter().find_map(of_no_host) {
                return Err((
                    key,
                    fault!(
                        "no host has an address for {what}, and {range} is such a one or has some";
                        "write addresses of hosts"
                    ),
                ));
            }
        }
        if self.keep_ports && self.clients.ports.is_some() {
            return Err((
                "keep-ports",
                fault!("'clients' have ports, and so has the capture"; "leave one of the two out"),
            ));
        }
        if let (Some(client), Some(server)) =
            (self.clients.addresses.0.first(), self.servers.addresses.0.first())
            && client.is_ipv6() != server.is_ipv6()
        {
            return Err((
                "clients",
                fault!("clients have {client} and servers {server}: two versions of IP"; "write addresses of one"),
            ));
        }
        Ok(())
    }
}

impl FlowSpec {
    /// The copies of a capture that it sends, if it does.
    pub(crate) fn copies(&self) -> Option<&Copies> {
        self.replay.as_ref().and_then(|replay| replay.copies.as_deref())
    }
}

impl Replay {
    /// What is said beside copies and contradicts them, and the key.
    pub(super) fn check_copies(&self) -> Result<(), (&'static str, Fault)> {
        let Some(copies) = &self.copies else { return Ok(()) };
        if self.tight_loop.is_some() {
            return Err((
                "tight-loop",
                fault!("packets of copies have times"; "leave 'tight-loop' out, or write 'gap' and 'turnaround' in 'copies'"),
            ));
        }
        if self.times != super::once() {
            return Err((
                "loop",
                fault!("copies start as often as 'copies' says"; "leave 'loop' out, or write 'count' in 'copies'"),
            ));
        }
        if self.preload {
            return Err((
                "preload",
                fault!("what copies are made of is in memory anyhow"; "leave 'preload' out"),
            ));
        }
        let is_timed = copies.gap.is_some() && copies.turnaround.is_some();
        if is_timed && self.speed != Factor::ONE {
            return Err((
                "speed",
                fault!("'gap' and 'turnaround' of 'copies' say all times"; "leave 'speed' out, or one of these two"),
            ));
        }
        Ok(())
    }
}

/// A rate of copies is a number a second.
fn counts_copies(rate: &Rate) -> Result<(), Fault> {
    match rate {
        Rate::Frames(_) | Rate::Unlimited => Ok(()),
        _ => Err(fault!("'{rate}' does not count copies"; "write for example 1000/s")),
    }
}

/// So many times a rate, exactly.
fn multiplied(rate: FrameRate, by: Factor) -> Result<FrameRate, Fault> {
    let (times, parts) = by.fraction();
    let product = (
        u128::from(rate.frames).saturating_mul(times.into()),
        u128::from(rate.per.get()).saturating_mul(parts.into()),
    );
    let divisor = gcd(product.0, product.1).max(1);
    let whole = |number: u128| u64::try_from(number / divisor);
    match (whole(product.0), whole(product.1)) {
        (Ok(frames), Ok(per)) => Ok(FrameRate { frames, per: Nanos::new(per) }),
        _ => Err(fault!("{by} this rate has too many digits"; "write the rate itself")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn read(replay: &str) -> Result<Scenario, String> {
        let text = format!(
            "ports: {{ a: {{}} }}\nflows: {{ x: {{ from: a, replay: {{ capture: day.pcap, {replay} }} }} }}\n"
        );
        Scenario::from_yaml(&text, "").map_err(|error| error.to_string())
    }

    fn rate(copies: &str) -> FlowRate {
        let scenario = read(&format!("copies: {{ {copies} }}"));
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        let replay = scenario.flows["x"].replay.as_ref().unwrap();
        replay.copies.as_ref().unwrap().starts().unwrap().rate
    }

    #[test]
    fn a_factor_multiplies_every_rate_exactly() {
        let frames = |frames, per| FrameRate { frames, per: Nanos::new(per) };
        assert_eq!(
            rate("rate: 3/s, multiply: 0.1x"),
            FlowRate::Fixed(Rate::Frames(frames(3, 10_000_000_000)))
        );
        assert_eq!(
            rate("rate: 404.52/s, multiply: 100x"),
            FlowRate::Fixed(Rate::Frames(frames(10_113, 250_000_000)))
        );
        let FlowRate::Ramp(ramp) =
            rate("rate: { ramp: { from: 1/s, to: 2/s, over: 1s } }, multiply: 5x")
        else {
            panic!("no ramp")
        };
        assert_eq!((ramp.from.to_string(), ramp.to.to_string()), ("5pps".into(), "10pps".into()));
    }

    #[test]
    fn what_contradicts_copies_is_refused_with_a_remedy() {
        for (replay, words) in [
            (
                "copies: {}",
                "flows.x.replay.copies.rate: nothing says how many copies start; give a 'rate'",
            ),
            ("copies: { rate: 1Mbps }", "does not count copies; write for example 1000/s"),
            ("copies: { rate: 10% }", "does not count copies"),
            ("copies: { count: 3, multiply: 2x }", "copies.multiply: 'multiply' needs a rate"),
            ("copies: { rate: 1/s, servers: { ports: 80 } }", "unknown key 'ports'"),
            ("copies: { rate: 1/s, clients: { mac: 02:00:00:00:00:01 } }", "unknown key 'mac'"),
            (
                "copies: { rate: 1/s, clients: { ports: 5 }, keep-ports: true }",
                "copies.keep-ports: 'clients' have ports, and so has the capture; leave one",
            ),
            (
                "copies: { rate: 1/s, clients: { addresses: 10.0.0.1 }, servers: { addresses: 'fd00::1' } }",
                "two versions of IP; write addresses of one",
            ),
            (
                "copies: { rate: 1/s, servers: { addresses: 224.0.0.5 } }",
                "write addresses of hosts",
            ),
            (
                "copies: { rate: 1/s, gap: 1ms, turnaround: 1ms, min-gap: 1us }",
                "copies.min-gap: 'gap' and 'turnaround' say all times",
            ),
            (
                "speed: 2x, copies: { rate: 1/s, gap: 1ms, turnaround: 1ms }",
                "replay.speed: 'gap' and 'turnaround'",
            ),
            (
                "tight-loop: 1us, copies: { rate: 1/s }",
                "replay.tight-loop: packets of copies have times",
            ),
            ("loop: 3, copies: { rate: 1/s }", "replay.loop: copies start as often"),
            (
                "preload: on, copies: { rate: 1/s }",
                "replay.preload: what copies are made of is in memory",
            ),
        ] {
            let error = read(replay).expect_err(replay);
            assert!(error.contains(words), "{replay}: {error}");
        }
        let archive = "ports: { a: {}, b: {} }\nflows: { x: { from: a, to: b, replay: { archive: a.wbar, copies: { rate: 1/s } } } }\n";
        let error = Scenario::from_yaml(archive, "").unwrap_err().to_string();
        assert!(error.contains("only a capture has this; leave it out"), "{error}");
        let beside = "ports: { a: {} }\nflows: { x: { from: a, rate: 5pps, replay: { capture: a.pcap, copies: { rate: 1/s } } } }\n";
        let error = Scenario::from_yaml(beside, "").unwrap_err().to_string();
        assert!(error.contains("write the rate of copies in 'copies'"), "{error}");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = "ports:\n  a: {}\nflows:\n  x:\n    from: a\n    replay:\n      capture: day.pcap\n      side: client\n      copies:\n        rate: 2400/s\n        multiply: 2x\n        clients:\n          addresses: 16.0.0.1-16.0.0.255\n        per-pair: 4\n        tuples: 200\n        gap: 10ms\n";
        let scenario = Scenario::from_yaml(text, "").unwrap_or_else(|error| panic!("{error}"));
        let written = scenario.to_yaml().unwrap();
        assert_eq!(Scenario::from_yaml(&written, "").unwrap(), scenario, "{written}");
        assert!(written.contains("2400/s"), "{written}");
    }
}
