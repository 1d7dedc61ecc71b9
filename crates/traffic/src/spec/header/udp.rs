//! UDP (RFC 768).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::HeaderSpec;
use crate::spec::flow::{is_on, on};
use crate::spec::is_default;
use crate::spec::schema::SwitchText;

/// The discard service (RFC 863).
pub const DISCARD: u16 = 9;

/// The UDP header. Its length fills itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Udp {
    /// Source port. Default: 9, or what the system chooses with the engine `socket`.
    #[serde(skip_serializing_if = "is_default")]
    pub source: Option<u16>,
    /// Destination port. Default: 9, the discard service.
    #[serde(skip_serializing_if = "is_discard")]
    pub destination: u16,
    /// Whether there is a checksum. IPv6 demands one.
    #[serde(default = "on", skip_serializing_if = "is_on")]
    #[schemars(with = "SwitchText")]
    pub checksum: bool,
}

impl Default for Udp {
    fn default() -> Self {
        Udp { source: None, destination: DISCARD, checksum: true }
    }
}

fn is_discard(port: &u16) -> bool {
    *port == DISCARD
}

impl HeaderSpec for Udp {
    fn header_len(&self) -> u16 {
        wirebeat_wire::udp::LEN as u16
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if self.destination == 0 {
            return Err(("destination", "port 0 is reserved; give a port from 1 on".to_owned()));
        }
        Ok(())
    }
}
