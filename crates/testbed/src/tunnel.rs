//! A link without Ethernet: two namespaces with a tun device each, and a thread that carries packets from one to the other.
//!
//! A tun device is what WireGuard, ppp and other tunnels look like to a program: IP packets and no link layer. No safe crate
//! wraps the call that makes one, so this file holds an `unsafe` block.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use wirebeat_netlink::{Namespace, request_name};

use crate::namespaces::{Forwarding, create};
use crate::options::Options;
use crate::testbed::{Place, configure};
use crate::{Testbed, TestbedError};

/// The longest packet of IP.
const PACKET_MAX: usize = 65_535;
/// How long the end of a tunnel waits for its thread to notice.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Two namespaces and a tunnel between them: `wb0` at 10.77.0.1 and `wb1` at 10.77.0.2, which carry IP packets alone.
/// Gone when it is dropped.
#[derive(Debug)]
pub struct Tunnel {
    /// Its ends; their link-layer addresses mean nothing.
    pub bed: Testbed,
    ended: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

impl Tunnel {
    /// Lays it.
    pub fn new(options: &Options) -> Result<Tunnel, TestbedError> {
        let end = |label: &str, name: &str, host: u8| {
            let namespace = create(label, options.addressing, Forwarding::Off)?;
            let device = namespace.run(|| device(name, Layer::Ip))?.map_err(TestbedError::Tun)?;
            let end = configure(namespace, name, Place { network: 0, host }, options)?;
            Ok::<_, TestbedError>((end, device))
        };
        let (a, near) = end("a", "wb0", 1)?;
        let (b, far) = end("b", "wb1", 2)?;
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let carrier = thread::Builder::new()
            .name("tunnel".to_owned())
            .spawn(move || carry([near, far], &seen))
            .map_err(TestbedError::Thread)?;
        let bed = Testbed { a, b, more: Vec::new(), device: None }.connected()?;
        Ok(Tunnel { bed, ended, carrier: Some(carrier) })
    }

    /// The namespaces of its ends.
    pub fn namespaces(&self) -> [&Namespace; 2] {
        [&self.bed.a.namespace, &self.bed.b.namespace]
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = self.carrier.take().map(JoinHandle::join);
    }
}

/// What a device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// Packets of IP: a tun device.
    Ip,
    /// Frames of Ethernet: a tap device.
    Ethernet,
}

/// Makes a device in the namespace of the calling thread; it is gone with its handle.
#[allow(unsafe_code)]
pub(crate) fn device(name: &str, layer: Layer) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device: OwnedFd = open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: integers and bytes, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name = request_name(name)?;
    let layer = match layer {
        Layer::Ip => libc::IFF_TUN,
        Layer::Ethernet => libc::IFF_TAP,
    };
    request.ifr_ifru.ifru_flags = (layer | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the kernel reads and writes one `ifreq`, which lives until the call returns.
    let made = unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if made < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(device)) }
}

/// Carries packets both ways until `ended`, or until a device is gone.
fn carry(devices: [File; 2], ended: &AtomicBool) {
    let mut packet = vec![0; PACKET_MAX];
    while !ended.load(Ordering::Acquire) {
        let mut both = devices.each_ref().map(|device| PollFd::new(device, PollFlags::IN));
        if poll(&mut both, Some(&LOOK)).is_err() {
            return;
        }
        for (mut from, mut to) in [(&devices[0], &devices[1]), (&devices[1], &devices[0])] {
            loop {
                match from.read(&mut packet) {
                    // a full queue loses packets, as those of other tunnels do
                    Ok(length) => drop(to.write(&packet[..length])),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => return,
                }
            }
        }
    }
}
