//! What arrived damaged where sockets receive: the network stack drops it before a socket sees it, so that it is lost without another word.
//! Here it is read from the kernel's counters, over the life of a receiver. Knows nothing of what was measured.

use wirebeat_host::Damaged;
use wirebeat_netlink::Namespace;

use crate::error::RunError;
use crate::ports::ResolvedPort;

/// Watches the stack of a port's namespace.
#[derive(Debug)]
pub(crate) struct DamageWatch {
    namespace: Option<Namespace>,
    before: Damaged,
}

impl DamageWatch {
    /// From now on.
    pub(crate) fn of(port: &ResolvedPort) -> Result<DamageWatch, RunError> {
        let before = port.enter(Damaged::observe)?;
        Ok(DamageWatch { namespace: port.namespace.clone(), before })
    }

    /// What was dropped since then, in words.
    pub(crate) fn finding(&self) -> Option<String> {
        let now = match &self.namespace {
            Some(namespace) => namespace.run(Damaged::observe).ok()?,
            None => Damaged::observe(),
        };
        told(now.since(self.before))
    }
}

fn told(damaged: Damaged) -> Option<String> {
    let counted = [
        (damaged.datagrams, "datagrams with a wrong checksum (InCsumErrors)"),
        (damaged.headers, "packets with a damaged IP header (InHdrErrors)"),
    ];
    let parts: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    (!damaged.is_none()).then(|| {
        format!(
            "the receiver's network stack dropped {}: something damaged them on the way, and those of this run count as lost",
            parts.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_by_what_was_wrong() {
        assert_eq!(told(Damaged::default()), None);
        let one = told(Damaged { datagrams: 0, headers: 2 }).unwrap();
        assert!(one.contains("dropped 2 packets with a damaged IP header"), "{one}");
        let both = told(Damaged { datagrams: 7, headers: 2 }).unwrap();
        assert!(
            both.contains("7 datagrams with a wrong checksum (InCsumErrors) and 2 packets"),
            "{both}"
        );
    }
}
