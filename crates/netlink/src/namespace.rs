//! Network namespaces: handles on them, and threads inside them.
//!
//! A namespace belongs to a thread, not to a process. [`Namespace::run`] therefore works on a
//! thread of its own; sockets opened there stay in the namespace wherever they go afterwards.
//! Making namespaces is the testbed's business.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::{Mode, OFlags, fstat, fstatfs, open};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wirebeat_units::{Fault, fault, into_fault};

use crate::NetlinkError;

/// Where `ip netns` keeps its names.
const NAMED: &str = "/run/netns";
/// `NSFS_MAGIC` of `linux/magic.h`: the file system of namespace handles.
const NSFS_MAGIC: u64 = 0x6e73_6673;

/// A network namespace, held open: it lives at least as long as this handle or a clone of it.
#[derive(Clone)]
pub struct Namespace {
    fd: Arc<OwnedFd>,
    label: Arc<str>,
}

/// Why a namespace cannot be opened or entered.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum NamespaceError {
    /// The name cannot be a namespace's.
    Name(String),
    /// Nothing is there.
    Missing(String),
    /// Something is there that is not a network namespace.
    NotOne(String),
    /// The system refused to open it.
    Open {
        /// Which one.
        label: String,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused to let the thread in.
    Enter {
        /// Which one.
        label: String,
        /// The system's error.
        source: io::Error,
    },
    /// There is no thread to be had.
    Thread {
        /// Which one.
        label: String,
        /// The system's error.
        source: io::Error,
    },
    /// Inside it, netlink failed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

impl NamespaceError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            NamespaceError::Name(it) => {
                fault!(
                    "'{it}' is not the name of a network namespace";
                    "`ip netns list` shows those there are"
                )
            }
            NamespaceError::Missing(it) => {
                fault!("there is no network namespace {it}"; "`ip netns list` shows the named ones")
            }
            NamespaceError::NotOne(it) => fault!("{it} is not a network namespace"),
            NamespaceError::Open { label, source } => {
                fault!("cannot open the network namespace {label}: {source}")
            }
            NamespaceError::Enter { label, source } => {
                let fault = fault!("cannot enter the network namespace {label}: {source}");
                match Errno::from_io_error(source) {
                    Some(Errno::PERM) => fault.or_hint("it needs CAP_SYS_ADMIN (run as root)"),
                    _ => fault,
                }
            }
            NamespaceError::Thread { label, source } => {
                fault!("cannot start a thread for the network namespace {label}: {source}")
            }
            NamespaceError::Netlink(inner) => inner.fault(),
        }
    }
}

into_fault!(NamespaceError);

impl Namespace {
    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NamespaceError> {
        Self::open_as(Path::new("/proc/thread-self/ns/net"), "of this thread".to_owned())
    }

    /// The namespace that `ip netns` calls `name`.
    pub fn named(name: &str) -> Result<Self, NamespaceError> {
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
            return Err(NamespaceError::Name(name.to_owned()));
        }
        Self::open_as(&Path::new(NAMED).join(name), format!("'{name}'"))
    }

    /// The namespace whose handle is the file at `path`, such as `/proc/1/ns/net`.
    pub fn open(path: &Path) -> Result<Self, NamespaceError> {
        Self::open_as(path, path.display().to_string())
    }

    /// The namespace of the process `pid` (of its main thread).
    pub fn of_process(pid: u32) -> Result<Self, NamespaceError> {
        let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
        Self::open_as(&path, format!("of process {pid}"))
    }

    fn open_as(path: &Path, label: String) -> Result<Self, NamespaceError> {
        // A named pipe at that path must not hold us.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let fd = match open(path, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Err(NamespaceError::Missing(label)),
            Err(e) => return Err(NamespaceError::Open { label, source: e.into() }),
        };
        match fstatfs(&fd) {
            Ok(stat) if stat.f_type as u64 == NSFS_MAGIC => {}
            _ => return Err(NamespaceError::NotOne(label)),
        }
        Ok(Namespace { fd: Arc::new(fd), label: label.into() })
    }

    /// The same namespace under a name for messages: "sender", "the router".
    pub fn with_label(&self, label: &str) -> Self {
        Namespace { fd: Arc::clone(&self.fd), label: label.into() }
    }

    /// What messages call it.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Moves the calling thread, and only it, into the namespace. Threads that it starts later
    /// begin there too; the rest of the process stays where it is. Needs CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|e| {
            match e {
                Errno::INVAL => NamespaceError::NotOne(self.label.to_string()),
                e => NamespaceError::Enter { label: self.label.to_string(), source: e.into() },
            }
        })
    }

    /// Runs `work` on a fresh thread inside the namespace and returns what it returns. The calling
    /// thread waits and stays where it is. A panic of `work` is passed on.
    pub fn run<T, F>(&self, work: F) -> Result<T, NamespaceError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        thread::scope(|scope| {
            let thread = thread::Builder::new()
                .name(format!("in {}", self.label))
                .spawn_scoped(scope, || self.enter().map(|()| work()))
                .map_err(|source| NamespaceError::Thread {
                    label: self.label.to_string(),
                    source,
                })?;
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Device and inode number of the handle, which tell namespaces apart; `None` when the system
    /// does not say.
    fn identity(&self) -> Option<(u64, u64)> {
        fstat(&*self.fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }
}

/// Two handles are equal when they are on the same namespace.
impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        self.identity().is_some_and(|id| Some(id) == other.identity())
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_and_its_process_share_a_namespace() {
        let here = Namespace::current().unwrap();
        assert_eq!(here, Namespace::of_process(std::process::id()).unwrap());
        assert_eq!(here, Namespace::open(Path::new("/proc/self/ns/net")).unwrap());
    }

    #[test]
    fn what_is_no_namespace_is_told_so() {
        let error = |r: Result<Namespace, NamespaceError>| r.unwrap_err().to_string();
        assert!(error(Namespace::named("../etc")).contains("is not the name"));
        assert!(
            error(Namespace::named("no-such-namespace")).contains("there is no network namespace")
        );
        assert!(error(Namespace::open(Path::new("/proc/self/stat"))).contains("is not a network"));
    }
}
