//! An interface: what its driver does behind our back, and where its interrupts go.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde::Serialize;
use wirebeat_netlink::{
    Channels, Coalescing, Feature, Link, Netlink, ReceiveStamps, Rings, Timestamping, XdpFeatures,
    XdpOffer,
};

use crate::{CpuList, card, files};

/// What is known of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's name for virtual kinds: "veth".
    pub kind: Option<String>,
    /// The driver of the device behind it: "ice", "virtio_net".
    pub driver: Option<String>,
    /// "up", "up without carrier", "down".
    pub state: String,
    /// Its link-layer address.
    pub mac: Option<String>,
    /// Bytes that a frame may carry after the Ethernet header.
    pub mtu: u32,
    /// Speed of the line in bits per second, where it is known and more than nominal.
    pub speed_bps: Option<u64>,
    /// Transmit queues.
    pub tx_queues: u32,
    /// Receive queues.
    pub rx_queues: u32,
    /// Offloads that change what is seen and when.
    pub offloads: Offloads,
    /// Entries of the receive ring.
    pub rx_ring: Option<u32>,
    /// The most that the receive ring could have.
    pub rx_ring_max: Option<u32>,
    /// Entries of the transmit ring.
    pub tx_ring: Option<u32>,
    /// The most that the transmit ring could have.
    pub tx_ring_max: Option<u32>,
    /// Microseconds that a receive interrupt may wait for further frames.
    pub rx_coalesce_us: Option<u32>,
    /// Frames that a receive interrupt may wait for.
    pub rx_coalesce_frames: Option<u32>,
    /// Microseconds that a transmit interrupt may wait.
    pub tx_coalesce_us: Option<u32>,
    /// Whether the driver changes the receiving delay by itself.
    pub adaptive_coalescing: Option<bool>,
    /// Queue pairs, or receive queues, with an interrupt of their own.
    pub channels: Option<u32>,
    /// How received frames are spread over the queues: "equal over 4 queues".
    pub rss: Option<String>,
    /// Whether it asks the other end of the link to pause.
    pub pause_sent: Option<bool>,
    /// Whether it pauses when the other end asks for it.
    pub pause_heeded: Option<bool>,
    /// The node of memory that the device is next to.
    pub numa_node: Option<u32>,
    /// Its interrupts and where they go.
    pub interrupts: Vec<Interrupt>,
    /// How an XDP program is attached: "native", "generic".
    pub xdp: Option<String>,
    /// What the driver says it can do with XDP, in the kernel's words.
    pub xdp_features: Option<String>,
    /// What it offers to AF_XDP sockets; `None` where the kernel does not tell (before Linux 6.3).
    pub af_xdp: Option<AfXdp>,
    /// What stamps it offers.
    pub timestamps: Timestamps,
}

/// What an interface offers to AF_XDP sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AfXdp {
    /// The driver runs XDP programs itself; else the stack does.
    pub native: bool,
    /// The driver sends from the memory of a socket, and receives into it.
    pub zero_copy: bool,
    /// Programs of the driver see frames that are longer than a buffer.
    pub multi_buffer: bool,
    /// Of how many buffers a frame may be without a copy.
    pub zero_copy_buffers: Option<u32>,
    /// What a program can ask of a received frame: "timestamp", "hash", "VLAN tag".
    pub receive_metadata: Vec<String>,
    /// What a socket can ask for a frame that it sends: "timestamp", "checksum", "launch time".
    pub transmit_metadata: Vec<String>,
}

impl From<XdpOffer> for AfXdp {
    fn from(offer: XdpOffer) -> AfXdp {
        let has = |feature| offer.features.contains(feature);
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        AfXdp {
            native: has(XdpFeatures::BASIC),
            zero_copy: has(XdpFeatures::XSK_ZEROCOPY),
            multi_buffer: has(XdpFeatures::RX_SG),
            zero_copy_buffers: offer.zero_copy_segments.filter(|_| has(XdpFeatures::XSK_ZEROCOPY)),
            receive_metadata: owned(&offer.receive_metadata),
            transmit_metadata: owned(&offer.transmit_metadata),
        }
    }
}

/// In words: "native XDP, zero copy, frames of up to 8 buffers, metadata: timestamp and hash as received".
impl fmt::Display for AfXdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = if self.native { "native" } else { "generic" };
        let copy = if self.zero_copy { "zero copy" } else { "copy" };
        write!(f, "{program} XDP, {copy}")?;
        match (self.zero_copy_buffers, self.multi_buffer) {
            (Some(buffers @ 2..), _) => write!(f, ", frames of up to {buffers} buffers")?,
            (_, true) => f.write_str(", frames of several buffers with a copy")?,
            _ => f.write_str(", frames of one buffer")?,
        }
        for (way, names) in
            [("received", &self.receive_metadata), ("sent", &self.transmit_metadata)]
        {
            if !names.is_empty() {
                write!(f, ", with {way} frames: {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}

/// Stamps that an interface offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timestamps {
    /// Whether the driver stamps frames by the system's clock when it hands them to the device.
    pub software_transmit: bool,
    /// Whether the card stamps sent frames.
    pub hardware_transmit: bool,
    /// Which received frames the card stamps: "all received frames"; `None` where it stamps none.
    pub hardware_receive: Option<String>,
    /// The card's clock: "/dev/ptp0".
    pub clock: Option<String>,
}

impl From<Timestamping> for Timestamps {
    fn from(offered: Timestamping) -> Self {
        let receive = offered.receive;
        Timestamps {
            software_transmit: offered.software_transmit,
            hardware_transmit: offered.transmit,
            hardware_receive: (receive != ReceiveStamps::None).then(|| receive.to_string()),
            clock: offered.clock.map(|number| format!("/dev/ptp{number}")),
        }
    }
}

/// Offloads; `None` where the driver does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offloads {
    /// Received segments are joined by the stack.
    pub gro: Option<bool>,
    /// Received segments are joined by the card.
    pub lro: Option<bool>,
    /// Datagrams and segments are split late, by the stack.
    pub gso: Option<bool>,
    /// TCP segments are split by the card.
    pub tso: Option<bool>,
    /// Datagrams are split by the card.
    pub udp_segmentation: Option<bool>,
    /// Checksums of received frames are verified by the card.
    pub rx_checksum: Option<bool>,
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// What it is for: "eth0-TxRx-0".
    pub name: String,
    /// The CPUs that it may go to.
    pub allowed: Option<CpuList>,
    /// The CPUs that it goes to.
    pub effective: Option<CpuList>,
}

impl Interface {
    /// Looks at `link` through a handle on its namespace.
    pub fn observe(netlink: &mut Netlink, link: &Link) -> Self {
        let rings = netlink.rings(link.index).unwrap_or_default();
        let coalescing = netlink.coalescing(link.index).unwrap_or_default();
        let channels = netlink.channels(link.index).unwrap_or_default();
        let features = netlink.features(link.index).unwrap_or_default();
        let pause = netlink.pause(link.index).unwrap_or_default();
        let device = device(link);
        Interface {
            timestamps: netlink.timestamping(link.index).unwrap_or_default().into(),
            af_xdp: netlink.xdp_offer(link.index).map(AfXdp::from),
            driver: device.as_deref().and_then(driver),
            numa_node: device.as_deref().and_then(numa_node),
            rss: card::rss(&link.name).map(|rss| rss.to_string()),
            pause_sent: pause.tx,
            pause_heeded: pause.rx,
            interrupts: device.map(|device| interrupts(link, &device)).unwrap_or_default(),
            ..Self::of_link(link, rings, coalescing, channels, &features)
        }
    }

    fn of_link(
        link: &Link,
        rings: Rings,
        coalescing: Coalescing,
        channels: Channels,
        features: &[Feature],
    ) -> Self {
        Interface {
            name: link.name.clone(),
            kind: link.kind.clone(),
            driver: None,
            state: link.state.to_string(),
            mac: link.mac.map(|mac| mac.to_string()),
            mtu: link.mtu,
            speed_bps: link.speed.map(|speed| speed.0),
            tx_queues: link.tx_queues,
            rx_queues: link.rx_queues,
            offloads: Offloads::of(features),
            rx_ring: rings.rx,
            rx_ring_max: rings.rx_max,
            tx_ring: rings.tx,
            tx_ring_max: rings.tx_max,
            rx_coalesce_us: coalescing.rx_usecs,
            rx_coalesce_frames: coalescing.rx_frames,
            tx_coalesce_us: coalescing.tx_usecs,
            adaptive_coalescing: coalescing.adaptive_rx,
            channels: channels.combined.filter(|&n| n > 0).or(channels.rx),
            rss: None,
            pause_sent: None,
            pause_heeded: None,
            numa_node: None,
            interrupts: Vec::new(),
            xdp: link.xdp.map(|xdp| xdp.mode.to_string()),
            xdp_features: link.xdp_features.map(|features| features.to_string()),
            af_xdp: None,
            timestamps: Timestamps::default(),
        }
    }
}

impl Offloads {
    fn of(features: &[Feature]) -> Self {
        let active = |name: &str| Some(features.iter().find(|f| f.name == name)?.active);
        Offloads {
            gro: active("rx-gro"),
            lro: active("rx-lro"),
            gso: active("tx-generic-segmentation"),
            tso: active("tx-tcp-segmentation"),
            udp_segmentation: active("tx-udp-segmentation"),
            rx_checksum: active("rx-checksum"),
        }
    }
}

/// The device behind an interface. `/sys/class/net` shows the namespace in which it was mounted; what it
/// says only counts when it speaks of the same interface.
fn device(link: &Link) -> Option<PathBuf> {
    let folder = Path::new("/sys/class/net").join(&link.name);
    let same = files::value(folder.join("ifindex")) == Some(link.index.get())
        && files::text(folder.join("address")) == link.mac.map(|mac| mac.to_string());
    if same { fs::canonicalize(folder.join("device")).ok() } else { None }
}

/// The CPUs of the node of memory that an interface is next to; `None` where it is next to none, or nobody knows.
pub fn near_cpus(link: &Link) -> Option<CpuList> {
    let node = numa_node(&device(link)?)?;
    CpuList::parse(&files::text(format!("/sys/devices/system/node/node{node}/cpulist"))?)
}

fn driver(device: &Path) -> Option<String> {
    let driver = fs::read_link(device.join("driver")).ok()?;
    Some(driver.file_name()?.to_str()?.to_owned())
}

/// The device's own, or its parent's: a virtio device sits on a PCI device. −1 is "no node".
fn numa_node(device: &Path) -> Option<u32> {
    let node = |device: &Path| files::value::<i32>(device.join("numa_node"));
    node(device).or_else(|| node(device.parent()?)).and_then(|node| u32::try_from(node).ok())
}

/// The interrupts of a device: those that PCI lists for it, and those named after it or the interface.
fn interrupts(link: &Link, device: &Path) -> Vec<Interrupt> {
    let listed = [Some(device), device.parent()]
        .into_iter()
        .flatten()
        .map(|device| files::numbered(device.join("msi_irqs"), ""))
        .find(|numbers| !numbers.is_empty())
        .unwrap_or_default();
    let device_name = device.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let table = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    parse(&table)
        .into_iter()
        .filter(|(number, name)| {
            listed.contains(number)
                || named_after(name, &link.name)
                || named_after(name, device_name)
        })
        .map(|(number, name)| {
            let list =
                |file: &str| CpuList::parse(&files::text(format!("/proc/irq/{number}/{file}"))?);
            let (allowed, effective) = (list("smp_affinity_list"), list("effective_affinity_list"));
            Interrupt { number, name, allowed, effective }
        })
        .collect()
}

/// Numbers and names of the lines `N: counts… chip type name` of `/proc/interrupts`.
fn parse(table: &str) -> Vec<(u32, String)> {
    let line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let name = rest.split_ascii_whitespace().next_back()?;
        Some((number.trim().parse().ok()?, name.to_owned()))
    };
    table.lines().filter_map(line).collect()
}

/// Whether one of the words of an interrupt's name is `owner`: "eth1" in "mlx5-eth1-0", not in "eth10-0".
fn named_after(name: &str, owner: &str) -> bool {
    !owner.is_empty()
        && name.match_indices(owner).any(|(at, _)| {
            let around = [name[..at].chars().next_back(), name[at + owner.len()..].chars().next()];
            around.into_iter().flatten().all(|c| !c.is_alphanumeric())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU1\n\
        \x2038:          0       5137 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n\
        \x2040:          7          0 IR-PCI-MSI 524289-edge      eth1-TxRx-0\n\
        NMI:          0          0   Non-maskable interrupts\n\
        ERR:          0\n";

    #[test]
    fn numbered_interrupts_are_read_with_their_names() {
        let found = parse(TABLE);
        let expected = [(38, "virtio2-input.0".to_owned()), (40, "eth1-TxRx-0".to_owned())];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_name_is_matched_as_a_whole_word() {
        assert!(named_after("eth1-TxRx-0", "eth1"));
        assert!(named_after("i40e-eth1-TxRx-3", "eth1"));
        assert!(named_after("mlx5_comp0@pci:0000:01:00.0", "0000:01:00.0"));
        assert!(!named_after("eth10-TxRx-0", "eth1"));
        assert!(!named_after("veth1", "eth1"));
        assert!(!named_after("anything", ""));
    }

    #[test]
    fn loopback_tells_what_it_has() {
        let mut netlink = Netlink::open().unwrap();
        let link = netlink.link_by_name("lo").unwrap();
        let lo = Interface::observe(&mut netlink, &link);
        assert_eq!((lo.name.as_str(), lo.driver.as_deref(), lo.speed_bps), ("lo", None, None));
        assert_eq!(lo.interrupts, []);
        // no driver: the stack runs programs
        let af_xdp = lo.af_xdp.as_ref().map(|af_xdp| af_xdp.to_string());
        assert!(af_xdp.is_none_or(|text| text == "generic XDP, copy, frames of one buffer"));
        assert!(serde_json::to_value(&lo).unwrap()["offloads"].is_object());
    }

    #[test]
    fn what_a_driver_offers_to_sockets_is_said_in_words() {
        let offer = AfXdp {
            native: true,
            zero_copy: true,
            zero_copy_buffers: Some(8),
            receive_metadata: vec!["timestamp".to_owned(), "hash".to_owned()],
            ..AfXdp::default()
        };
        assert_eq!(
            offer.to_string(),
            "native XDP, zero copy, frames of up to 8 buffers, with received frames: timestamp, hash"
        );
        let cable = AfXdp { native: true, multi_buffer: true, ..AfXdp::default() };
        assert_eq!(cable.to_string(), "native XDP, copy, frames of several buffers with a copy");
    }
}
