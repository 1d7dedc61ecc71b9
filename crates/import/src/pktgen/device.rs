//! The parameters of a device of pktgen, as they are written one after the other.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use wirebeat_units::fault;
use wirebeat_wire::mac::MacAddr;

use crate::draft::Draft;
use crate::text::printable;
use crate::{Line, ScriptError};

/// The shortest packet: Ethernet, IPv4 and UDP.
const MIN_SIZE: u64 = 42;
/// The most entries of imix_weights, flows and labels.
const MAX_IMIX: usize = 20;
const MAX_FLOWS: u64 = 65_536;
const MAX_LABELS: usize = 16;
/// Never transmit.
const FOREVER: u64 = 0x7fff_ffff;

/// A device with its defaults (net/core/pktgen.c).
pub(super) struct Device {
    pub line: Line,
    pub cpu: u16,
    /// Where its sizes were said last.
    pub sizes_line: Line,
    pub sizes: (u64, u64),
    pub imix: Vec<(u64, u32)>,
    pub count: u64,
    /// Between bursts, in nanoseconds; `None`: it never sends.
    pub delay: Option<u64>,
    pub burst: u32,
    pub destination_mac: (Option<MacAddr>, u64),
    pub source_mac: (Option<MacAddr>, u64),
    pub destination: (Option<Ipv4Addr>, Option<Ipv4Addr>),
    pub source: (Option<Ipv4Addr>, Option<Ipv4Addr>),
    pub destination6: Option<Ipv6Addr>,
    pub destination6_range: (Option<Ipv6Addr>, Option<Ipv6Addr>),
    pub source6: Option<Ipv6Addr>,
    pub destination_port: (u16, u16),
    pub source_port: (u16, u16),
    pub tos: u8,
    pub traffic_class: u8,
    pub vlan: Option<Tag>,
    pub service_vlan: Option<Tag>,
    pub labels: Vec<u32>,
    pub flows: u32,
    pub flow_len: u64,
    pub flags: HashSet<Flag>,
}

/// A VLAN tag.
#[derive(Clone, Copy, Default)]
pub(super) struct Tag {
    pub id: u16,
    pub priority: u8,
    pub drop_eligible: u8,
}

/// Makes the enum of the flags that are carried over, and the table of all.
macro_rules! flags {
    ($($name:literal $flag:ident,)* left out $($other:literal $why:expr,)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum Flag {
            $($flag,)*
        }
        const FLAGS: &[(&str, Result<Flag, &str>)] =
            &[$(($name, Ok(Flag::$flag)),)* $(($other, Err($why)),)*];
    };
}

flags! {
    "IPV6" Ipv6,
    "IPSRC_RND" SourceRandom,
    "IPDST_RND" DestinationRandom,
    "TXSIZE_RND" SizeRandom,
    "UDPSRC_RND" SourcePortRandom,
    "UDPDST_RND" DestinationPortRandom,
    "UDPCSUM" UdpChecksum,
    "MPLS_RND" LabelsRandom,
    "FLOW_SEQ" FlowsOneByOne,
    "FLOW_RND" FlowsRandom,
    "MACSRC_RND" SourceMacRandom,
    "MACDST_RND" DestinationMacRandom,
    "VID_RND" VlanRandom,
    "SVID_RND" ServiceVlanRandom,
    left out
    "NO_TIMESTAMP" "packets bear their time, so that a receiver can measure it",
    "QUEUE_MAP_RND" NO_QUEUES,
    "QUEUE_MAP_CPU" NO_QUEUES,
    "IPSEC" NO_IPSEC,
    "NODE_ALLOC" NO_NODE,
    "SHARED" NO_MEMORY,
}

const NO_QUEUES: &str = "Wirebeat's engine chooses the queues; see a port's 'queues' and 'cores'";
const NO_IPSEC: &str = "packets are not encrypted";
const NO_NODE: &str = "the engine chooses where its memory lies";
const NO_MEMORY: &str = "it is about the kernel's memory for packets";
const NO_CLONES: &str =
    "ignored, because every packet is made anew: its fields, its number and its time are its own";

impl Device {
    pub fn new(line: &Line, cpu: u16) -> Device {
        Device {
            line: line.clone(),
            cpu,
            sizes_line: line.clone(),
            sizes: (60, 60),
            imix: Vec::new(),
            count: 1000,
            delay: Some(0),
            burst: 1,
            destination_mac: (None, 0),
            source_mac: (None, 0),
            destination: (None, None),
            source: (None, None),
            destination6: None,
            destination6_range: (None, None),
            source6: None,
            destination_port: (9, 9),
            source_port: (9, 9),
            tos: 0,
            traffic_class: 0,
            vlan: None,
            service_vlan: None,
            labels: Vec::new(),
            flows: 0,
            flow_len: 0,
            flags: HashSet::new(),
        }
    }

    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// A command and its value.
    pub fn set(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        name: &str,
        value: &str,
    ) -> Result<(), ScriptError> {
        let command = Written { line, name, value };
        if ["pkt_size", "min_pkt_size", "max_pkt_size", "imix_weights"].contains(&name) {
            self.sizes_line = line.clone();
        }
        match name {
            "pkt_size" => self.sizes = command.size().map(|size| (size, size))?,
            "min_pkt_size" => self.sizes.0 = command.size()?,
            "max_pkt_size" => self.sizes.1 = command.size()?,
            "imix_weights" => self.imix = command.imix()?,
            "count" => self.count = command.number(u64::MAX)?,
            "delay" => {
                self.delay = Some(command.number(u64::MAX)?).filter(|delay| *delay != FOREVER)
            }
            "rate" => {
                // The kernel's page writes 'rate 300M'.
                let megabits = command.counted(draft, &["M"])?;
                self.delay = Some(self.sizes.0 * 8 * 1000 / megabits);
            }
            "ratep" => self.delay = Some(1_000_000_000 / command.counted(draft, &[])?),
            "burst" => {
                self.burst = u32::try_from(command.number(u32::MAX.into())?).unwrap_or(1).max(1);
                if self.burst > 1 {
                    draft.leave_out(line, &command.text(), NO_CLONES);
                }
            }
            "clone_skb" => {
                if command.number(u64::MAX)? > 0 {
                    draft.leave_out(line, &command.text(), NO_CLONES);
                }
            }
            "dst_mac" => self.destination_mac.0 = Some(command.parse("an Ethernet address")?),
            "src_mac" => self.source_mac.0 = Some(command.parse("an Ethernet address")?),
            "dst_mac_count" => self.destination_mac.1 = command.number(u32::MAX.into())?,
            "src_mac_count" => self.source_mac.1 = command.number(u32::MAX.into())?,
            "flows" => {
                let flows = command.number(u64::MAX)?.min(MAX_FLOWS);
                self.flows = u32::try_from(flows).unwrap_or(0);
            }
            "flowlen" => self.flow_len = command.number(u64::MAX)?,
            "flag" => self.flag(draft, &command)?,
            "clear_counters" | "debug" => {
                draft.leave_out(line, name, "counters begin at 0 with each run")
            }
            "frags" => draft.leave_out(line, &command.text(), NO_MEMORY),
            "node" => draft.leave_out(line, &command.text(), NO_NODE),
            "queue_map_min" | "queue_map_max" | "skb_priority" => {
                draft.leave_out(line, &command.text(), NO_QUEUES);
            }
            "spi" => draft.leave_out(line, &command.text(), NO_IPSEC),
            "xmit_mode" => match value {
                "start_xmit" => {}
                "netif_receive" | "queue_xmit" => {
                    let why = "packets go to the interface as its engine sends them";
                    draft.leave_out(line, &command.text(), why);
                }
                _ => return Err(command.wrong("start_xmit, netif_receive or queue_xmit")),
            },
            _ => return self.set_header(draft, &command),
        }
        Ok(())
    }

    /// What stands in the headers.
    fn set_header(
        &mut self,
        draft: &mut Draft<'_>,
        command: &Written<'_>,
    ) -> Result<(), ScriptError> {
        let (v4, v6) = ("an IPv4 address", "an IPv6 address");
        match command.name {
            "dst" | "dst_min" => self.destination.0 = Some(command.parse(v4)?),
            "dst_max" => self.destination.1 = Some(command.parse(v4)?),
            "src_min" => self.source.0 = Some(command.parse(v4)?),
            "src_max" => self.source.1 = Some(command.parse(v4)?),
            "dst6" => self.destination6 = Some(command.parse(v6)?),
            "dst6_min" => self.destination6_range.0 = Some(command.parse(v6)?),
            "dst6_max" => self.destination6_range.1 = Some(command.parse(v6)?),
            "src6" => self.source6 = Some(command.parse(v6)?),
            "udp_dst_min" => self.destination_port.0 = command.port()?,
            "udp_dst_max" => self.destination_port.1 = command.port()?,
            "udp_src_min" => self.source_port.0 = command.port()?,
            "udp_src_max" => self.source_port.1 = command.port()?,
            "tos" => self.tos = command.hex_byte()?,
            "traffic_class" => self.traffic_class = command.hex_byte()?,
            "vlan_id" => match u16::try_from(command.number(u64::MAX)?) {
                Ok(id @ ..=4095) => {
                    self.vlan = Some(Tag { id, ..self.vlan.unwrap_or_default() });
                    self.drop_labels(draft, command);
                }
                // That is how it is turned off.
                _ => (self.vlan, self.service_vlan) = (None, None),
            },
            "svlan_id" => match (u16::try_from(command.number(u64::MAX)?), self.vlan) {
                (Ok(id @ ..=4095), Some(_)) => {
                    self.service_vlan = Some(Tag { id, ..self.service_vlan.unwrap_or_default() });
                }
                (Ok(..=4095), None) => {
                    return Err(command
                        .line
                        .wrong(fault!("an outer tag needs an inner one"; "write vlan_id before")));
                }
                _ => (self.vlan, self.service_vlan) = (None, None),
            },
            "vlan_p" => tag(command, &mut self.vlan, "vlan_id")?.priority = command.small(7)?,
            "vlan_cfi" => {
                tag(command, &mut self.vlan, "vlan_id")?.drop_eligible = command.small(1)?
            }
            "svlan_p" => {
                tag(command, &mut self.service_vlan, "svlan_id")?.priority = command.small(7)?
            }
            "svlan_cfi" => {
                tag(command, &mut self.service_vlan, "svlan_id")?.drop_eligible =
                    command.small(1)?;
            }
            "mpls" => {
                self.labels = command.labels()?;
                if self.vlan.is_some() && !self.labels.is_empty() {
                    draft.leave_out(
                        command.line,
                        "the VLAN",
                        "pktgen turns VLANs off when labels are set",
                    );
                    (self.vlan, self.service_vlan) = (None, None);
                }
                // pktgen takes a label with the bottom bit for one that is to be random.
                if self.labels.iter().any(|label| is_bottom(*label)) {
                    self.flags.insert(Flag::LabelsRandom);
                }
            }
            other => {
                let why = format!("pktgen has no parameter '{}'", printable(other));
                return Err(command.line.wrong(why));
            }
        }
        if command.name.starts_with("dst6") || command.name == "src6" {
            self.flags.insert(Flag::Ipv6);
        }
        Ok(())
    }

    fn drop_labels(&mut self, draft: &mut Draft<'_>, command: &Written<'_>) {
        if !self.labels.is_empty() {
            draft.leave_out(command.line, "the labels", "pktgen turns MPLS off when a VLAN is set");
            self.labels.clear();
        }
    }

    fn flag(&mut self, draft: &mut Draft<'_>, command: &Written<'_>) -> Result<(), ScriptError> {
        // Some scripts write several, though pktgen takes the first one only.
        for word in command.value.split_whitespace() {
            let (name, set) = word.strip_prefix('!').map_or((word, true), |name| (name, false));
            match FLAGS.iter().find(|(known, _)| *known == name) {
                Some((_, Ok(flag))) if set => {
                    self.flags.insert(*flag);
                }
                Some((_, Ok(flag))) => {
                    self.flags.remove(flag);
                }
                Some((_, Err(why))) if set => draft.leave_out(command.line, &command.text(), *why),
                Some((_, Err(_))) => {}
                None => return Err(command.wrong("a flag of pktgen")),
            }
        }
        match command.value.is_empty() {
            true => Err(command.wrong("a flag of pktgen")),
            false => Ok(()),
        }
    }
}

/// Whether it is the last of a stack (RFC 3032 §2.1).
pub(super) fn is_bottom(label: u32) -> bool {
    label & 0x100 != 0
}

fn tag<'a>(
    command: &Written<'_>,
    tag: &'a mut Option<Tag>,
    before: &str,
) -> Result<&'a mut Tag, ScriptError> {
    tag.as_mut().ok_or_else(|| {
        command.line.wrong(fault!("{} goes with a tag", command.name; "write {before} before"))
    })
}

/// A command as it is written.
struct Written<'a> {
    line: &'a Line,
    name: &'a str,
    value: &'a str,
}

impl Written<'_> {
    fn text(&self) -> String {
        format!("{} {}", self.name, self.value)
    }

    fn wrong(&self, what: &str) -> ScriptError {
        let (name, value) = (self.name, printable(self.value));
        self.line.wrong(format!("{name} has {what}, not '{value}'"))
    }

    fn parse<T: std::str::FromStr>(&self, what: &str) -> Result<T, ScriptError> {
        self.value.parse().map_err(|_| self.wrong(what))
    }

    fn number(&self, most: u64) -> Result<u64, ScriptError> {
        let number: u64 = self.parse("a whole number")?;
        match number {
            number if number <= most => Ok(number),
            _ => Err(self.wrong(&format!("a number of at most {most}"))),
        }
    }

    /// A number from 1 on, and what may stand behind it. The kernel reads the digits alone, so that anything else
    /// behind them is named.
    fn counted(&self, draft: &mut Draft<'_>, units: &[&str]) -> Result<u64, ScriptError> {
        let end = self.value.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.value.len());
        let (digits, unit) = self.value.split_at(end);
        if !digits.is_empty() && !unit.is_empty() && !units.contains(&unit) {
            let why = format!("pktgen reads the digits alone, and so it is {} {digits}", self.name);
            draft.leave_out(self.line, &self.text(), why);
        }
        match digits.parse() {
            Ok(0) => Err(self.wrong("a number from 1 on")),
            Ok(number) => Ok(number),
            Err(_) => Err(self.wrong("a whole number")),
        }
    }

    fn small(&self, most: u8) -> Result<u8, ScriptError> {
        self.number(most.into()).map(|number| u8::try_from(number).unwrap_or(most))
    }

    /// Without FCS; what is shorter than the headers is made as long.
    fn size(&self) -> Result<u64, ScriptError> {
        self.number(u16::MAX.into()).map(|size| size.max(MIN_SIZE))
    }

    fn port(&self) -> Result<u16, ScriptError> {
        self.parse("a port, 0 to 65535")
    }

    fn hex_byte(&self) -> Result<u8, ScriptError> {
        let digits =
            self.value.len() == 2 && self.value.bytes().all(|byte| byte.is_ascii_hexdigit());
        let byte = digits.then(|| u8::from_str_radix(self.value, 16).ok()).flatten();
        byte.ok_or_else(|| self.wrong("two hex digits, such as b8"))
    }

    fn imix(&self) -> Result<Vec<(u64, u32)>, ScriptError> {
        let entry = |word: &str| {
            let (size, weight) = word.split_once(',')?;
            let size: u16 = size.parse().ok()?;
            Some((u64::from(size).max(MIN_SIZE), weight.parse().ok().filter(|weight| *weight > 0)?))
        };
        let entries: Option<Vec<_>> =
            self.value.split_whitespace().take(MAX_IMIX + 1).map(entry).collect();
        entries
            .filter(|entries| (1..=MAX_IMIX).contains(&entries.len()))
            .ok_or_else(|| self.wrong("1 to 20 entries of a size and a weight: 60,7 590,4 1514,1"))
    }

    /// Entries of a label stack in hex, 32 bits each.
    fn labels(&self) -> Result<Vec<u32>, ScriptError> {
        let label = |word: &str| {
            let digits = (1..=8).contains(&word.len()) && !word.starts_with('+');
            digits.then(|| u32::from_str_radix(word, 16).ok()).flatten()
        };
        let labels: Option<Vec<u32>> =
            self.value.split(',').take(MAX_LABELS + 1).map(|word| label(word.trim())).collect();
        labels
            .filter(|labels| labels.len() <= MAX_LABELS)
            .ok_or_else(|| self.wrong("1 to 16 labels in hex: 0001000a,0002000a"))
    }
}
