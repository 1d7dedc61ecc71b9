//! Requests and responses of given sizes, without a protocol around them.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault};

use crate::scenario::departures::Duration;
use crate::scenario::is_default;
use crate::scenario::session::size::DataSize;

/// Requests and responses of given sizes. Both ends know the sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Exchange {
    /// How many bytes a request has. Default: 100.
    #[serde(skip_serializing_if = "is_request")]
    pub request: DataSize,
    /// How many bytes a response has. Default: 1000.
    #[serde(skip_serializing_if = "is_response")]
    pub response: DataSize,
    /// How many requests a session has, one after the other. Default: 1.
    #[serde(skip_serializing_if = "is_one")]
    pub requests: NonZeroU32,
    /// How long the client waits from a response to its next request. Default: not at all.
    #[serde(skip_serializing_if = "is_default")]
    pub think: Option<Duration>,
    /// Whether messages over UDP begin with a number of 8 bytes, which the server sends back: a late response is known by it. Both
    /// ends have to be told the same. Default: yes, where request and response have room for it.
    #[serde(skip_serializing_if = "is_true")]
    pub numbers: bool,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange {
            request: request(),
            response: response(),
            requests: one(),
            think: None,
            numbers: true,
        }
    }
}

impl Exchange {
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        self.request.check().map_err(|why| ("request", why))?;
        self.response.check().map_err(|why| ("response", why))?;
        self.think.iter().try_for_each(Duration::check).map_err(|why| ("think", why))
    }
}

fn request() -> DataSize {
    Bytes::new(100).into()
}

fn response() -> DataSize {
    Bytes::new(1000).into()
}

fn is_true(flag: &bool) -> bool {
    *flag
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_request(size: &DataSize) -> bool {
    *size == request()
}

fn is_response(size: &DataSize) -> bool {
    *size == response()
}

fn is_one(count: &NonZeroU32) -> bool {
    *count == one()
}
