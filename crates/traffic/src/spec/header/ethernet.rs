//! Ethernet (IEEE 802.3 §3.2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_wire::mac::MacAddr;

use super::HeaderSpec;
use crate::spec::is_default;
use crate::spec::schema::MacText;

/// The Ethernet header. Its type follows from the next header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Ethernet {
    /// Source address. Default: that of the sending interface.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub source: Option<MacAddr>,
    /// Destination address. Default: the port's `next-hop`, else the next hop towards the destination.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<MacText>")]
    pub destination: Option<MacAddr>,
}

impl HeaderSpec for Ethernet {
    fn header_len(&self) -> u16 {
        wirebeat_wire::ethernet::LEN as u16
    }
}
