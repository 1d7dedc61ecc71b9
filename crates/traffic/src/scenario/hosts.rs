//! The hosts that our own TCP plays on a link, and links in memory for runs in no time.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{BitRate, Bytes, Fault, Nanos, fault};
use wirebeat_wire::mac::MacAddr;

use super::is_default;
use super::schema::{BitRateText, BytesText, MacText, TimeText};

/// The largest number of a VLAN (IEEE 802.1Q §9.6).
const VLAN_MAX: u16 = 4094;

/// How the hosts of sessions with `stack: own` are on the link of a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct HostsSpec {
    /// The Ethernet address of all of them. Default: one of our own, made of that of the interface, so that the system does not take
    /// their frames for its own.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub mac: Option<MacAddr>,
    /// The VLAN that they are in: 1 to 4094. Default: their frames have no tag.
    #[serde(skip_serializing_if = "is_default")]
    pub vlan: Option<u16>,
    /// The routers to all that is not on the link, one for each version of IP at most. Default: as the system's routes say for
    /// the interface; without one, everything is on the link.
    #[serde(skip_serializing_if = "is_default")]
    pub gateways: Vec<IpAddr>,
}

impl HostsSpec {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.vlan.is_some_and(|vlan| !(1..=VLAN_MAX).contains(&vlan)) {
            return Err(("vlan", fault!("a VLAN has a number from 1 to {VLAN_MAX}")));
        }
        if self.mac.is_some_and(|mac| mac.is_multicast() || mac == MacAddr([0; 6])) {
            return Err(("mac", fault!("this is not the address of one station")));
        }
        let version =
            |is_ipv4: bool| self.gateways.iter().filter(move |ip| ip.is_ipv4() == is_ipv4);
        if version(true).count() > 1 || version(false).count() > 1 {
            return Err((
                "gateways",
                fault!("there is more than one router for a version of IP"; "write one for each"),
            ));
        }
        Ok(())
    }
}

/// A link in memory: what happens to frames from one port to the other, in each direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CableSpec {
    /// How long frames from here travel. Default: 10us.
    #[schemars(with = "TimeText")]
    pub delay: Nanos,
    /// How fast the line from here is. Default: 1Gbps.
    #[schemars(with = "BitRateText")]
    pub rate: BitRate,
    /// How many bytes may wait for the line; what comes then is dropped. Default: 1MiB.
    #[schemars(with = "BytesText")]
    pub queue: Bytes,
    /// The share of frames from here that is lost: 0 to 1. Default: 0.
    #[serde(skip_serializing_if = "is_default")]
    pub loss: f64,
}

impl Default for CableSpec {
    fn default() -> CableSpec {
        CableSpec {
            delay: Nanos::from_micros(10),
            rate: BitRate(1_000_000_000),
            queue: Bytes::new(1 << 20),
            loss: 0.0,
        }
    }
}

impl CableSpec {
    /// The least time that frames travel.
    pub const DELAY_MIN: Nanos = Nanos::from_micros(1);

    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if !(0.0..=1.0).contains(&self.loss) {
            return Err((
                "loss",
                fault!("a share that is lost is from 0 to 1"; "write for example 0.01 for 1 %"),
            ));
        }
        if self.rate.0 == 0 {
            return Err(("rate", fault!("a line has a rate above 0")));
        }
        // without any, all that is said would be said at one moment
        if self.delay < CableSpec::DELAY_MIN {
            return Err(("delay", fault!("frames travel for {} at least", CableSpec::DELAY_MIN)));
        }
        Ok(())
    }
}
