//! One transmit queue for each CPU, as drivers of real cards set it up. A virtual cable has no such order:
//! frames are spread by hash, and two senders may share a queue while another lies idle.

use std::path::Path;
use std::thread::available_parallelism;
use std::{fs, io};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use wirebeat_netlink::Namespace;

/// Gives CPU n the queue n modulo `queues` of `interface` (XPS). For comfort only: where it is not
/// permitted, everything works as before.
pub(crate) fn steer(namespace: &Namespace, interface: &str, queues: u32) {
    if queues > 1 {
        let _ = namespace.run(|| write(interface, queues));
    }
}

/// `/sys` shows the namespace of whoever mounted it: the calling thread, which ends afterwards, mounts one
/// that nobody else sees.
fn write(interface: &str, queues: u32) -> io::Result<()> {
    const NOTHING: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NOTHING)?;
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), NOTHING)?;
    let folder = Path::new("/sys/class/net").join(interface).join("queues");
    let cpus = available_parallelism()?.get() as u32;
    for queue in 0..queues {
        fs::write(folder.join(format!("tx-{queue}/xps_cpus")), mask(queue, queues, cpus))?;
    }
    Ok(())
}

/// The CPUs of a queue as sysfs reads them, in hexadecimal; the first 32 CPUs are enough here.
fn mask(queue: u32, queues: u32, cpus: u32) -> String {
    let mine = (queue..cpus.min(32)).step_by(queues as usize);
    format!("{:x}", mine.fold(0u32, |mask, cpu| mask | 1 << cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_take_turns() {
        assert_eq!([mask(0, 2, 2), mask(1, 2, 2)], ["1", "2"]);
        assert_eq!([mask(0, 2, 5), mask(1, 2, 5)], ["15", "a"]);
        assert_eq!(mask(0, 1, 64), "ffffffff");
        assert_eq!(mask(40, 64, 64), "0");
    }
}
