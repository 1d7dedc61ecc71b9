//! A message of HTTP that a step waits for.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wirebeat_units::{Bytes, Fault, fault};

use super::http::{Method, check_status};
use crate::scenario::is_default;
use crate::scenario::schema::BytesText;

/// A message of HTTP/1.1, whole: a response where a client waits for it, a request where a server does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ReceiveHttp {
    /// The method of the request that the response is to: a response to HEAD has no content. Default: GET.
    #[serde(skip_serializing_if = "is_default")]
    pub method: Method,
    /// The status that the response is to have. Default: any below 400. Another one is counted as unexpected, and the session goes on.
    #[serde(skip_serializing_if = "is_default")]
    pub expect_status: Option<NonZeroU16>,
    /// How many bytes of content the message is to have. Another number is counted as unexpected. Default: any.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(with = "Option<BytesText>")]
    pub expect_size: Option<Bytes>,
}

impl ReceiveHttp {
    /// That it asks for what the end `of_server` can find in the message.
    pub(super) fn check(&self, of_server: bool) -> Result<(), Fault> {
        let asks_of_response = self.method != Method::default() || self.expect_status.is_some();
        if of_server && asks_of_response {
            return Err(fault!(
                "a server receives requests: 'method' and 'expect-status' are of responses";
                "leave them out"
            ));
        }
        check_status(self.expect_status).map_err(|why| why.at("expect-status"))
    }
}
