//! How pools are written: addresses and ports of one end of a group, and the Ethernet addresses of its hosts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Fault, fault};
use wirebeat_wire::mac::{MacAddr, MacSequence};

use super::super::pattern::{Field, Mac};
use super::{AddressPool, PoolOrder, PortPool, SessionSpec, StackChoice, is_default};
use crate::scenario::{Invalid, KeyPath, Scenario};
use crate::values::session::Pool;
use crate::values::{Per, Shape};

/// Bits of an Ethernet address.
const BITS: u32 = 48;

/// The addresses and ports of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pool")]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct PoolSpec {
    /// Its addresses: `10.0.1.1`, `10.0.1.0/24`, `10.0.1.1-10.0.1.9`, or a list. Of a prefix, network and broadcast address are
    /// left out. With weights, `{ 10.0.2.9: 3, 10.0.2.10: 1 }`, each has its share of the sessions.
    #[serde(skip_serializing_if = "AddressPool::is_empty")]
    pub addresses: AddressPool,
    /// Its ports: `80`, `1024-65535`, or a list.
    #[serde(skip_serializing_if = "is_default")]
    pub ports: Option<PortPool>,
    /// In which order sessions take them. Default: in turn.
    #[serde(skip_serializing_if = "is_default")]
    pub order: PoolOrder,
    /// With `stack: own`, the Ethernet addresses of its hosts: one for all, or a pattern, of which each IP address has the next value,
    /// for example `{ increment: 02:00:00:00:01:00 }`. Default: that of the port's `hosts`.
    #[serde(skip_serializing_if = "is_default")]
    pub mac: Option<Field<Mac>>,
}

impl PoolSpec {
    /// What programs take addresses and ports from.
    pub(crate) fn pool(&self) -> Pool {
        Pool {
            addresses: self.addresses.clone(),
            ports: self.ports.clone(),
            order: self.order,
            // whether it is one was checked
            macs: self.mac.as_ref().and_then(|mac| sequence(mac).ok()),
        }
    }

    /// That its hosts, `hosts` of them, can have these Ethernet addresses.
    fn check_macs(&self, hosts: u64) -> Result<(), Fault> {
        let Some(mac) = &self.mac else { return Ok(()) };
        mac.check(BITS)?;
        sequence(mac)?.check(hosts)
    }
}

/// The Ethernet addresses that a pattern writes.
fn sequence(field: &Field<Mac>) -> Result<MacSequence, Fault> {
    let (shape, per) = match (field, field.shape(BITS)) {
        (Field::Fixed(Mac(mac)), _) => return Ok(MacSequence::all(*mac)),
        (_, Some(changing)) => changing,
        (Field::Changing(_), None) => return Err(fault!("this pattern has no values")),
    };
    if per != Per::default() {
        return Err(fault!("hosts have no sub-flows"; "leave 'per' out"));
    }
    // values of a field of 48 bits
    let mac = |bits: u128| MacAddr::from_bits(bits as u64);
    match shape {
        Shape::List(values) => {
            Ok(MacSequence::List(values.iter().map(|bits| mac(*bits)).collect()))
        }
        Shape::Step { from, step, count, .. } => {
            let up = step as i64;
            let step = if up >> (BITS - 1) == 0 { up } else { up - (1 << BITS) };
            Ok(MacSequence::Step { first: mac(from), step, count })
        }
        Shape::Random { .. } => Err(fault!(
            "two hosts may have the same random address"; "write 'increment', 'decrement' or 'list'"
        )),
    }
}

/// Finds what is invalid of the Ethernet addresses of a group's hosts.
pub(super) fn check_macs(
    scenario: &Scenario,
    name: &str,
    spec: &SessionSpec,
) -> Result<(), Invalid> {
    let ends = [("clients", &spec.clients, &spec.from), ("servers", &spec.servers, &spec.to)];
    for (key, pool, port) in ends.into_iter().filter(|(_, pool, _)| pool.mac.is_some()) {
        let at = || KeyPath::root("sessions").key(name).key(key).key("mac");
        if spec.stack != StackChoice::Own {
            return Err(at().invalid(fault!(
                "the system's stack sends from the Ethernet addresses of its interfaces";
                "leave 'mac' out, or use 'stack: own'"
            )));
        }
        let Some(port) = port.as_ref().and_then(|port| scenario.ports.get(port)) else {
            return Err(at().invalid(fault!(
                "these {key} are somebody else's, and have Ethernet addresses of theirs"; "leave 'mac' out"
            )));
        };
        let hosts = match pool.addresses.is_empty() {
            true => port.addresses.len() as u64,
            false => pool.addresses.len(),
        };
        pool.check_macs(hosts).map_err(|why| at().invalid(why))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stack: &str, pools: &str) -> Result<Scenario, String> {
        let text = format!(
            "ports: {{ a: {{}} }}\nsessions:\n  s: {{ from: a, stack: {stack}, program: http, rate: 10/s, {pools} }}\nrun: {{ time: 1s }}\n"
        );
        Scenario::from_yaml(&text, "test").map_err(|error| error.to_string())
    }

    fn clients(mac: &str) -> String {
        format!(
            "clients: {{ addresses: 10.0.1.1-10.0.1.9, mac: {mac} }}, servers: {{ addresses: 10.0.2.9, ports: 80 }}"
        )
    }

    #[test]
    fn hosts_have_the_addresses_that_are_written() {
        for (mac, third) in [
            ("02:00:00:00:00:07", "02:00:00:00:00:07"),
            ("{ increment: 02:00:00:00:00:fe }", "02:00:00:00:01:00"),
            ("{ increment: 02:00:00:00:00:fe, step: 256 }", "02:00:00:00:02:fe"),
            ("{ increment: 02:00:00:00:00:fe, count: 2 }", "02:00:00:00:00:fe"),
            ("{ decrement: 02:00:00:00:01:00 }", "02:00:00:00:00:fe"),
            ("{ list: ['02:00:00:00:00:01', '06:00:00:00:00:02'] }", "02:00:00:00:00:01"),
        ] {
            let scenario = read("own", &clients(mac)).unwrap_or_else(|error| panic!("{error}"));
            let pool = scenario.sessions["s"].clients.pool();
            assert_eq!(pool.macs.unwrap().get(2).to_string(), third, "{mac}");
        }
    }

    #[test]
    fn what_no_host_can_have_is_refused_with_a_remedy() {
        for (stack, pools, words) in [
            ("own", clients("{ random: ['02:00:00:00:00:01', '02:00:00:00:00:09'] }"), "write 'increment'"),
            ("own", clients("{ increment: 02:00:00:00:00:01, per: sub-flow }"), "leave 'per' out"),
            ("own", clients("01:00:00:00:00:01"), "first byte is even"),
            ("own", clients("{ increment: 02:ff:ff:ff:ff:fc }"), "do not have the same first byte"),
            ("host", clients("02:00:00:00:00:01"), "use 'stack: own'"),
            (
                "own",
                "clients: { addresses: 10.0.1.1 }, servers: { addresses: 10.0.2.9, ports: 80, mac: 02:00:00:00:00:01 }".into(),
                "sessions.s.servers.mac: these servers are somebody else's",
            ),
        ] {
            let error = read(stack, &pools).unwrap_err();
            assert!(error.contains(words), "{pools}: {error}");
        }
    }
}
