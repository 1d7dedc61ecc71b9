//! The program of DNS: what clients ask for, and what servers answer.

use std::sync::Arc;

use wirebeat_units::Fault;

use super::script::{ScriptMaker, add_time};
use crate::program::script::{DnsClient, DnsPart, DnsServer, Op, Script};
use crate::scenario::session::program::Dns;
use crate::scenario::session::program::dns::NUMBER;

/// What clients do.
pub(super) fn client(
    maker: &mut ScriptMaker<'_>,
    dns: &Dns,
    script: &mut Script,
) -> Result<(), Fault> {
    let ours = maker.spec.to.is_some();
    let think = dns.think.as_ref().map(|time| maker.time(time)).transpose()?;
    let think = think.map(|law| add_time(script, law));
    let expected = dns.expect_rcode.or(ours.then_some(dns.rcode)).unwrap_or_default();
    script.dns = Some(DnsPart::Client(Arc::new(DnsClient {
        name: dns.name.split(NUMBER).map(str::to_owned).collect(),
        kind: dns.kind.0,
        recursion_desired: dns.recursion_desired,
        requests: dns.requests.get(),
        think,
        expected: expected.0,
        ids: maker.key(),
    })));
    script.ops.push(Op::Dns);
    Ok(())
}

/// What servers do.
pub(super) fn server(dns: &Dns, script: &mut Script) {
    script.dns = Some(DnsPart::Server(Arc::new(DnsServer {
        answers: dns.answers.clone(),
        ttl: dns.ttl_seconds(),
        rcode: dns.rcode.0,
    })));
    script.ops.push(Op::Dns);
}
