//! What this process may do.

use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use serde::Serialize;

use crate::files;

/// What this process may do; `None` where the system does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// The effective user number.
    pub user: u32,
    /// In a user namespace these rights reach only what belongs to it; eBPF is beyond them.
    pub user_namespace: Option<bool>,
    /// Effective CAP_BPF, or CAP_SYS_ADMIN, which includes it.
    pub bpf: Option<bool>,
    /// Effective CAP_NET_ADMIN.
    pub net_admin: Option<bool>,
    /// Effective CAP_NET_RAW.
    pub net_raw: Option<bool>,
    /// Effective CAP_SYS_NICE.
    pub sys_nice: Option<bool>,
    /// How much memory may be locked.
    pub memory_lock: MemoryLock,
}

/// How much memory a process may lock (RLIMIT_MEMLOCK).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryLock {
    /// All there is.
    Unlimited,
    /// A number of bytes.
    Bytes(u64),
}

impl Privileges {
    pub(crate) fn observe() -> Self {
        let effective = capabilities(None).map(|sets| sets.effective).ok();
        let has = |wanted: CapabilitySet| effective.map(|set| set.contains(wanted));
        let bpf =
            effective.map(|set| set.intersects(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN));
        Privileges {
            user: geteuid().as_raw(),
            user_namespace: files::text("/proc/self/uid_map").map(|map| !is_initial(&map)),
            bpf,
            net_admin: has(CapabilitySet::NET_ADMIN),
            net_raw: has(CapabilitySet::NET_RAW),
            sys_nice: has(CapabilitySet::SYS_NICE),
            memory_lock: getrlimit(Resource::Memlock)
                .current
                .map_or(MemoryLock::Unlimited, MemoryLock::Bytes),
        }
    }
}

/// Only the first user namespace maps the whole range of numbers to itself (user_namespaces(7)).
fn is_initial(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_users_tells_a_user_namespace() {
        assert!(is_initial("         0          0 4294967295\n"));
        assert!(!is_initial("         0       1000          1\n"));
    }
}
