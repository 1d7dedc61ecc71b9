//! The ports of the scenario: one for each Ethernet port of WARP17, and for each VLAN of its test cases one more.
//!
//! Without interfaces, both ends are in memory where the file has two ports: there a cable is, and neither routers nor VLANs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use wirebeat_traffic::scenario::PortSpec;

use super::command::End;
use super::setup::{EthPort, Setup};
use crate::capture::port;
use crate::draft::Draft;

/// Where test cases are.
pub(super) struct Places {
    /// Whether both ends are in memory.
    pub in_memory: bool,
}

impl Places {
    /// Adds the ports of the scenario.
    pub fn new(setup: &Setup, draft: &mut Draft<'_>) -> Places {
        let has = |port: &EthPort, end: &dyn Fn(End) -> bool| {
            port.cases.values().any(|case| end(case.end))
        };
        let of_sessions = |port: &&EthPort| has(port, &|end| end != End::MulticastSource);
        let options = draft.options.clone();
        let in_memory =
            options.interface.is_none() && setup.ports.values().filter(of_sessions).count() == 2;
        let places = Places { in_memory };
        // those of clients come first: theirs is --interface
        let mut order: Vec<(&u32, &EthPort)> =
            setup.ports.iter().filter(|(_, port)| !port.cases.is_empty()).collect();
        order.sort_by_key(|(_, port)| !has(port, &|end| end != End::Server));
        let interfaces = [options.interface.clone(), options.to.clone()];
        for (at, (&number, eth)) in order.into_iter().enumerate() {
            let interface = interfaces.get(at).cloned().flatten();
            if !in_memory && interface.is_none() {
                let why = "no interface is known for it: write 'interface' into the port, or convert with --interface and --to";
                draft.leave_out(&eth.line, &format!("port {number}"), why);
            }
            let spec = match in_memory || interface.is_some() {
                true => port(&interface),
                false => PortSpec::default(),
            };
            places.add((number, eth), &spec, (setup, draft));
        }
        places
    }

    /// The name of a port of the scenario.
    pub fn name(&self, number: u32, vlan: u16) -> String {
        match vlan {
            0 => format!("port-{number}"),
            _ if self.in_memory => format!("port-{number}"),
            vlan => format!("port-{number}-vlan-{vlan}"),
        }
    }

    fn add(
        &self,
        (number, eth): (u32, &EthPort),
        spec: &PortSpec,
        (setup, draft): (&Setup, &mut Draft<'_>),
    ) {
        let mut vlans: BTreeMap<u16, Option<(crate::Line, Ipv4Addr)>> = BTreeMap::new();
        for (case, of) in &eth.cases {
            if of.vlan != 0 && self.in_memory {
                let why = "a cable in memory has no VLANs: convert with --interface and --to";
                draft.leave_out(&of.line, &format!("VLAN {} of test case {case}", of.vlan), why);
            }
            vlans.entry(if self.in_memory { 0 } else { of.vlan }).or_default();
        }
        for interface in &eth.interfaces {
            let (vlan, gateway) =
                interface.vlan.map_or((0, None), |(vlan, gateway)| (vlan, Some(gateway)));
            let vlan = if self.in_memory { 0 } else { vlan };
            if let Some(entry) = vlans.get_mut(&vlan) {
                *entry = entry.take().or(gateway.map(|gateway| (interface.line.clone(), gateway)));
            }
            self.tell_interface(eth, interface, draft);
        }
        for (vlan, gateway) in vlans {
            // that of the VLAN, else that of the port
            let gateway = gateway.or_else(|| eth.gateway.clone());
            let gateway = gateway.and_then(|(line, gateway)| {
                let why = self.without(number, gateway, (setup, eth))?;
                match why {
                    "" => Some(gateway),
                    why => {
                        draft.leave_out(&line, &format!("gateway {gateway}"), why);
                        None
                    }
                }
            });
            let mut spec = PortSpec { mtu: eth.mtu, ..spec.clone() };
            spec.hosts.gateways = gateway.map(IpAddr::V4).into_iter().collect();
            spec.hosts.vlan = Some(vlan).filter(|vlan| *vlan != 0);
            draft.scenario.ports.insert(self.name(number, vlan), spec);
        }
    }

    /// Why a gateway is not written; `""`: it is; `None`: it needs no word.
    fn without(
        &self,
        number: u32,
        gateway: Ipv4Addr,
        (setup, eth): (&Setup, &EthPort),
    ) -> Option<&'static str> {
        let has = |port: &EthPort| {
            let interface = port.interfaces.iter().any(|interface| interface.address == gateway);
            let hosts = port.cases.values().any(|case| {
                let own = case.pools.own.0;
                (own.first..=own.last).contains(&IpAddr::V4(gateway))
            });
            interface || hosts
        };
        let of_another = setup.ports.iter().any(|(other, port)| *other != number && has(port));
        Some(if gateway.is_unspecified() {
            return None;
        } else if of_another {
            "it is another port of this file: nothing is between them, and hosts are asked for themselves (ARP)"
        } else if self.in_memory {
            "a cable in memory has no router: convert with --interface and --to"
        } else if has(eth)
            || gateway.is_multicast()
            || gateway.is_broadcast()
            || gateway.is_loopback()
        {
            "no other host on the link has this address"
        } else {
            ""
        })
    }

    /// Tells of an address that no test case has: in WARP17 the router sends to it what is for the pools.
    fn tell_interface(
        &self,
        eth: &EthPort,
        interface: &super::setup::Interface,
        draft: &mut Draft<'_>,
    ) {
        let address = IpAddr::V4(interface.address);
        let is_used = eth.cases.values().any(|case| {
            let own = case.pools.own.0;
            (own.first..=own.last).contains(&address)
        });
        if !is_used {
            let why = "our hosts answer ARP for the addresses of test cases, and for no others: a router has these on the link, rather than \
                       behind this address";
            draft.leave_out(&interface.line, &format!("l3_intf {address}"), why);
        }
    }
}
