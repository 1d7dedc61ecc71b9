//! What every measurement shares: one cable between two namespaces, the CPUs, a folder for files, and
//! the counters of the far end, which are the same for everybody.
//!
//! No tool's own word is taken for how fast it was: frames are counted by the far interface, and what a
//! receiving program read by the UDP counters of its namespace.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use wirebeat_device::{Device, Limits, TokenBucket};
use wirebeat_engine_linux::affinity;
use wirebeat_netlink::Netlink;
use wirebeat_testbed::{Addressing, End, ImpairedCable, Impairment, Neighbours, Options, Testbed};

/// Why something could not be measured. It becomes the text of a row.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The CPUs that senders and receivers are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Where senders run: the last, because the first often serves interrupts.
    pub send: usize,
    /// Where everything else runs that has a place.
    pub other: usize,
}

impl Cores {
    /// Of the CPUs that this process may use.
    fn of(allowed: &[usize]) -> Result<Cores, Failure> {
        match allowed {
            [.., other, send] => Ok(Cores { send: *send, other: *other }),
            _ => Err("the benchmark needs two CPUs, one to send and one to receive".into()),
        }
    }
}

/// Frames and bytes that arrived at the far interface so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Frames.
    pub frames: u64,
    /// Their bytes without FCS.
    pub bytes: u64,
}

/// What lies between the ends.
#[derive(Debug)]
enum Link {
    Cable(Testbed),
    Device(Device),
    Queue(ImpairedCable),
}

/// What is to lie between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// A cable.
    Cable,
    /// A device with a token bucket: what finds no token is dropped.
    Bucket(TokenBucket),
    /// A line in user space, with a queue before it.
    Queue {
        /// Bits that the line carries in a second.
        bits_per_second: u64,
        /// Bytes that may wait for it.
        bytes: u64,
    },
}

impl Link {
    fn bed(&self) -> &Testbed {
        match self {
            Link::Cable(bed) => bed,
            Link::Device(device) => &device.bed,
            Link::Queue(cable) => &cable.bed,
        }
    }
}

/// The shared ground.
#[derive(Debug)]
pub struct Lab {
    link: Link,
    between: Between,
    counters: Mutex<Netlink>,
    /// Where senders and receivers run.
    pub cores: Cores,
    /// For files.
    pub folder: Folder,
}

fn lay(between: Between) -> Result<(Link, Netlink), Failure> {
    let options =
        Options { addressing: Addressing::V4, neighbours: Neighbours::Fixed, ..Options::default() };
    let link = match between {
        Between::Cable => Link::Cable(Testbed::pair(&options)?),
        Between::Bucket(bucket) => {
            let limits = Limits { bucket: Some(bucket), ..Limits::default() };
            Link::Device(Device::new(&options, limits)?)
        }
        Between::Queue { bits_per_second, bytes } => {
            let line =
                Impairment { rate: Some(bits_per_second), queue: bytes, ..Impairment::default() };
            Link::Queue(ImpairedCable::new(&options, line, line)?)
        }
    };
    let counters = link.bed().b.netlink()?;
    Ok((link, counters))
}

impl Lab {
    /// Lays the cable.
    pub fn lay() -> Result<Lab, Failure> {
        Lab::with(Between::Cable)
    }

    /// The same with something else between the ends.
    pub fn with(between: Between) -> Result<Lab, Failure> {
        let (link, counters) = lay(between)?;
        let cores = Cores::of(&affinity::allowed())?;
        let folder = Folder::make()?;
        Ok(Lab { link, between, counters: Mutex::new(counters), cores, folder })
    }

    /// Frames that the device had no tokens for so far; 0 without one.
    pub fn over(&self) -> Result<u64, Failure> {
        match &self.link {
            Link::Cable(_) | Link::Queue(_) => Ok(0),
            Link::Device(device) => Ok(device.carried()?.over),
        }
    }

    /// The end that sends.
    pub fn near(&self) -> &End {
        &self.link.bed().a
    }

    /// The end that receives.
    pub fn far(&self) -> &End {
        &self.link.bed().b
    }

    /// What has arrived at the far interface so far.
    pub fn arrived(&self) -> Result<Volume, Failure> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = counters.stats(self.far().link.index)?;
        Ok(Volume { frames: stats.rx_packets, bytes: stats.rx_bytes })
    }

    /// Datagrams that programs at the far end have read so far.
    pub fn read(&self) -> Result<u64, Failure> {
        let text =
            self.far().namespace.run(|| fs::read_to_string("/proc/thread-self/net/snmp"))??;
        datagrams_read(&text).ok_or_else(|| "/proc/net/snmp has no 'Udp: InDatagrams'".into())
    }

    /// Names an XDP program that somebody left on the cable.
    pub fn left_behind(&self) -> Result<Option<&str>, Failure> {
        for end in [self.near(), self.far()] {
            if end.netlink()?.link_by_index(end.link.index)?.xdp.is_some() {
                return Ok(Some(end.interface()));
            }
        }
        Ok(None)
    }

    /// Lays the cable anew.
    pub fn renew(&mut self) -> Result<(), Failure> {
        let (link, counters) = lay(self.between)?;
        self.link = link;
        self.counters = Mutex::new(counters);
        Ok(())
    }
}

/// The counter `InDatagrams` of the lines "Udp: InDatagrams …" and "Udp: 17 …" of `/proc/net/snmp`.
fn datagrams_read(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut fields = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
    fields.find(|(name, _)| *name == "InDatagrams")?.1.parse().ok()
}

/// A folder that is gone with its handle.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    fn make() -> io::Result<Folder> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirebeat-bench-{}-{number}", process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // what cannot be removed is left to the system's cleaning of its folder for temporary files
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_by_its_name() {
        let snmp = "Tcp: InSegs OutSegs\nTcp: 5 6\nUdp: NoPorts InDatagrams X\nUdp: 1 4711 2\n\
                    UdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(datagrams_read(snmp), Some(4711));
        assert_eq!(datagrams_read("Udp: InDatagrams\n"), None);
        assert_eq!(datagrams_read(""), None);
    }

    #[test]
    fn senders_get_the_last_cpu() {
        assert_eq!(Cores::of(&[0, 1]).unwrap(), Cores { send: 1, other: 0 });
        assert_eq!(Cores::of(&[2, 5, 7]).unwrap(), Cores { send: 7, other: 5 });
        assert!(Cores::of(&[0]).is_err() && Cores::of(&[]).is_err());
    }
}
