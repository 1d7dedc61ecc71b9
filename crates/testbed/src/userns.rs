//! Without root: a user namespace in which this process may do to its own networks what root may.
//!
//! Network namespaces made inside it, their interfaces and raw sockets are all open to the process;
//! eBPF is not, for the kernel wants real root there.

use std::fs;
use std::io;
use std::thread;

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use wirebeat_units::{Fault, fault, into_fault};

/// Why there is no user namespace.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum UserNamespaceError {
    /// Other threads are running.
    Threads,
    /// This machine does not let users have them.
    NotPermitted {
        /// Which setting forbids it.
        why: &'static str,
        /// What changes the setting.
        mend: &'static str,
    },
    /// The system refused without a known reason.
    System {
        /// What was attempted.
        attempt: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl UserNamespaceError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            UserNamespaceError::Threads => {
                fault!(
                    "a user namespace can only be entered while the process has one thread";
                    "call it first thing in main"
                )
            }
            UserNamespaceError::NotPermitted { why, mend } => {
                fault!(
                    "this machine allows users no user namespaces ({why})";
                    "run as root, or as root {mend}"
                )
            }
            UserNamespaceError::System { attempt, source } => {
                fault!("cannot {attempt}: {source}"; "run as root")
            }
        }
    }
}

into_fault!(UserNamespaceError);

/// Moves the process into a user namespace of its own, in which its user and group are root.
///
/// Call it at the very start of `main`: the kernel refuses while other threads run. Threads and
/// processes started later are inside too. It cannot be left again. After an error the process
/// may be inside with no rights at all, and had best say why and end.
pub fn enter() -> Result<(), UserNamespaceError> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|e| explain("enter a user namespace", io::Error::from(e)))?;
    // Without this an unprivileged process may not write the map of groups (user_namespaces(7)).
    write("/proc/self/setgroups", "deny", "give up changing groups")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"), "map the user to root")?;
    write("/proc/self/gid_map", &format!("0 {group} 1"), "map the group to root")?;
    // Some systems let the namespace be and take its rights away: better known now than later.
    let probe = thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join();
    match probe {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(explain("make a network namespace in a user namespace", e.into())),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn write(path: &str, text: &str, attempt: &'static str) -> Result<(), UserNamespaceError> {
    fs::write(path, text).map_err(|source| explain(attempt, source))
}

fn explain(attempt: &'static str, source: io::Error) -> UserNamespaceError {
    let setting = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).ok();
    let forbidden = |why, mend| UserNamespaceError::NotPermitted { why, mend };
    match Errno::from_io_error(&source) {
        Some(Errno::INVAL) => UserNamespaceError::Threads,
        _ if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") => {
            forbidden(
                "kernel.unprivileged_userns_clone is 0",
                "`sysctl kernel.unprivileged_userns_clone=1`",
            )
        }
        _ if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") => {
            forbidden("user.max_user_namespaces is 0", "`sysctl user.max_user_namespaces=10000`")
        }
        _ if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref()
            == Some("1") =>
        {
            forbidden(
                "AppArmor restricts them",
                "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
            )
        }
        _ => UserNamespaceError::System { attempt, source },
    }
}

/// Whether this process is in the machine's first user namespace, whose root is the real one.
pub fn is_initial() -> bool {
    // The whole range of user numbers maps to itself there and nowhere else.
    fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}
