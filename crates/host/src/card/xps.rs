//! By which transmit queue the stack sends from a CPU: the masks of XPS (`Documentation/networking/scaling.rst`).
//!
//! `/sys` shows the namespace of the process that mounted it. So a sysfs of the calling thread's namespace is mounted where nobody
//! sees it: it has no place in the tree of files and is gone with its descriptor. That takes CAP_SYS_ADMIN; without it, the
//! usual `/sys` serves where it speaks of the same interface.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use wirebeat_netlink::Link;

use crate::files;

/// More queues than any card has.
const QUEUES_MAX: usize = 4096;
/// `CONFIG_NR_CPUS_RANGE_END` of x86.
const CPUS_MAX: usize = 8192;

/// The transmit queues in use and the CPUs that XPS gives to each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xps {
    /// The CPUs of each queue, in order; none where XPS says nothing of the queue.
    pub queues: Vec<Vec<usize>>,
}

impl Xps {
    /// Of `link`, in the calling thread's namespace. `None` where the kernel does not tell.
    pub fn read(link: &Link) -> Option<Xps> {
        let own = mounted().and_then(|mount| {
            let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
            read(&root, link)
        });
        own.or_else(|| read(Path::new("/sys"), link))
    }

    /// The queues that XPS gives to `cpu`.
    pub fn of_cpu(&self, cpu: usize) -> Vec<u32> {
        let mine = self.queues.iter().zip(0..).filter(|(cpus, _)| cpus.contains(&cpu));
        mine.map(|(_, queue)| queue).collect()
    }
}

/// A sysfs of this thread's network namespace.
fn mounted() -> Option<OwnedFd> {
    let context = fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY).ok()
}

fn read(root: &Path, link: &Link) -> Option<Xps> {
    let folder = root.join("class/net").join(&link.name);
    let same = files::value(folder.join("ifindex")) == Some(link.index.get())
        && files::text(folder.join("address")) == link.mac.map(|mac| mac.to_string());
    let folder = folder.join("queues");
    let numbers = if same { files::numbered(&folder, "tx-") } else { Vec::new() };
    // they are numbered without gaps, one for each queue that is in use
    let queues = numbers.into_iter().take(QUEUES_MAX);
    let cpus = |queue| files::text(folder.join(format!("tx-{queue}/xps_cpus")));
    let queues: Vec<Vec<usize>> =
        queues.map(|queue| cpus(queue).map(|text| mask(&text)).unwrap_or_default()).collect();
    (!queues.is_empty()).then_some(Xps { queues })
}

/// CPUs of a mask as sysfs writes it: groups of 32 bits in hexadecimal, the highest first.
fn mask(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for (group, digits) in text.trim().rsplit(',').take(CPUS_MAX / 32).enumerate() {
        let bits = u32::from_str_radix(digits, 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| group * 32 + bit));
    }
    cpus
}

#[cfg(test)]
mod tests {
    use wirebeat_netlink::Netlink;

    use super::*;

    #[test]
    fn masks_are_read_as_sysfs_writes_them() {
        assert_eq!(mask("1"), [0]);
        assert_eq!(mask("a"), [1, 3]);
        assert_eq!(mask("00000001,80000000\n"), [31, 32]);
        assert_eq!(mask("00000000"), [0; 0]);
        assert_eq!(mask("nonsense"), [0; 0]);
    }

    #[test]
    fn a_cpu_has_the_queues_whose_masks_name_it() {
        let xps = Xps { queues: vec![vec![0, 2], vec![1], vec![], vec![2]] };
        assert_eq!(xps.of_cpu(2), [0, 3]);
        assert_eq!(xps.of_cpu(1), [1]);
        assert_eq!(xps.of_cpu(7), [0; 0]);
    }

    #[test]
    fn loopback_has_one_queue_of_no_cpu() {
        let lo = Netlink::open().unwrap().link_by_name("lo").unwrap();
        assert_eq!(Xps::read(&lo), Some(Xps { queues: vec![vec![]] }));
    }
}
