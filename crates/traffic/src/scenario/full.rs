//! Writes a scenario with every key that has a value, those at their default too: as JSON, for reports.
//!
//! What is read back is the same scenario. Keys without a default (no `to`, no `count`) are left out, as in files.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{FlowSpec, PortSpec, RunSpec, Scenario, SessionSpec};

/// A scenario, or a part of one, that is written in full.
pub(super) struct Full<'a, T>(pub(super) &'a T);

/// Writes all fields of a part by name, so that none is forgotten: `always`, and `given` if there is something in it.
macro_rules! full {
    ($part:ident: always { $($always:ident)* } given { $($given:ident)* }) => {
        impl Serialize for Full<'_, $part> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $part { $($always,)* $($given),* } = self.0;
                let mut map = serializer.serialize_map(None)?;
                $(map.serialize_entry(&key(stringify!($always)), $always)?;)*
                $(if !super::is_default($given) {
                    map.serialize_entry(&key(stringify!($given)), $given)?;
                })*
                map.end()
            }
        }
    };
}

full! {
    PortSpec:
    always { engine }
    given {
        interface namespace cores queues transmit_queues receive_queues xdp_mode busy_poll launch_time receive_hash peer key_file addresses next_hop speed mtu capture hosts cable file
    }
}

full! {
    FlowSpec:
    always { from packet rate departures burst start probe }
    given { to sub_flows size stop count bytes at replay expect }
}

full! {
    SessionSpec:
    always { program stack rate departures burst start timeout }
    given {
        from to transport clients servers users think hold after until stop count at limit pair on_timeout tcp tls ttl dscp
        tos dont_fragment expect
    }
}

full! {
    RunSpec:
    always {
        wait priority late drift settle interval stagger link_timeout on_link_down timestamps
    }
    given { time start_at }
}

impl Serialize for Full<'_, Scenario> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Scenario { seed, ports, flows, sessions, mix, expect, run } = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("seed", seed)?;
        map.serialize_entry("ports", &Each(ports))?;
        map.serialize_entry("flows", &Each(flows))?;
        if !sessions.is_empty() {
            map.serialize_entry("sessions", &Each(sessions))?;
        }
        if let Some(mix) = mix {
            map.serialize_entry("mix", mix)?;
        }
        if !expect.is_empty() {
            map.serialize_entry("expect", expect)?;
        }
        map.serialize_entry("run", &Full(run))?;
        map.end()
    }
}

/// Parts by name, each written in full.
struct Each<'a, T>(&'a indexmap::IndexMap<String, T>);

impl<'a, T> Serialize for Each<'a, T>
where
    Full<'a, T>: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, part)| (name, Full(part))))
    }
}

/// The key of a field.
fn key(field: &str) -> String {
    field.replace('_', "-")
}
