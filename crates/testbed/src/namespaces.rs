//! Network namespaces without names, alive as long as somebody holds them.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use wirebeat_netlink::{Namespace, Netlink};

use crate::TestbedError;
use crate::options::Addressing;

/// How traffic through a namespace is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    Off,
    On,
}

/// Settings of `/proc/sys/net/ipv6/conf/default` under which an interface says nothing by itself:
/// no router solicitations, no addresses made up, none probed for duplicates, group reports done
/// with at once.
const QUIET: [(&str, &str); 5] = [
    ("accept_ra", "0"),
    ("autoconf", "0"),
    ("router_solicitations", "0"),
    ("accept_dad", "0"),
    ("mldv2_unsolicited_report_interval", "1"),
];

/// Makes a namespace with loopback up. It is gone when the last handle on it is.
pub(crate) fn create(
    label: &str,
    addressing: Addressing,
    forwarding: Forwarding,
) -> Result<Namespace, TestbedError> {
    // unshare() moves one thread; this one ends right after and takes nothing with it.
    let work = || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| TestbedError::Namespace(e.into()))?;
        settle(addressing, forwarding)?;
        let mut netlink = Netlink::open()?;
        let loopback = netlink.link_by_name("lo")?;
        netlink.set_up(loopback.index)?;
        Ok(Namespace::current()?.with_label(label))
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("new namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(TestbedError::Thread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Writes the settings of the calling thread's namespace.
fn settle(addressing: Addressing, forwarding: Forwarding) -> Result<(), TestbedError> {
    for (name, value) in QUIET {
        quieten(&format!("ipv6/conf/default/{name}"), value);
    }
    if addressing == Addressing::V4 {
        quieten("ipv6/conf/default/disable_ipv6", "1");
        quieten("ipv6/conf/all/disable_ipv6", "1");
    }
    if forwarding == Forwarding::On {
        set("ipv4/ip_forward", "1")?;
        if addressing == Addressing::V4AndV6 && has_ipv6() {
            set("ipv6/conf/all/forwarding", "1")?;
        }
    }
    Ok(())
}

/// Whether this kernel has IPv6 switched on at all.
pub(crate) fn has_ipv6() -> bool {
    fs::exists("/proc/sys/net/ipv6/conf/default").unwrap_or(false)
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}

fn set(name: &str, value: &str) -> Result<(), TestbedError> {
    let path = path(name);
    fs::write(&path, value).map_err(|source| TestbedError::Setting { path, source })
}

/// Writes a setting that only spares the cable some frames. Where `/proc/sys` may not be written
/// (an ordinary container) or the kernel lacks the setting, the frames are there.
fn quieten(name: &str, value: &str) {
    let _ = fs::write(path(name), value);
}

/// What to say to somebody who may not make namespaces.
pub(crate) fn hint(source: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(source) {
        Some(Errno::PERM | Errno::ACCESS) => {
            Some("run as root, or enter a user namespace at the start of the program")
        }
        Some(Errno::NOSPC) => Some("raise /proc/sys/user/max_net_namespaces"),
        Some(Errno::INVAL) => Some("the kernel needs CONFIG_NET_NS"),
        _ => None,
    }
}
