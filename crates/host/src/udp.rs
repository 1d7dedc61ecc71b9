//! UDP sockets of a network namespace, and what found no room in them.
//!
//! The kernel counts what it could not put into a socket's receive buffer, for each socket (`/proc/net/udp`, the last column)
//! and for all of a namespace (`RcvbufErrors` in `/proc/net/snmp`, `Udp6RcvbufErrors` in `snmp6`), also that of sockets that
//! are closed. Which namespace is that of the calling thread.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{files, snmp};

/// A UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// The address and port that it is bound to.
    pub local: SocketAddr,
    /// The number of its inode, which tells sockets apart.
    pub inode: u64,
    /// Datagrams for it that found no room in its buffer, or had a wrong checksum.
    pub drops: u64,
}

/// The UDP sockets of the calling thread's namespace and its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpSockets {
    /// By inode.
    pub sockets: BTreeMap<u64, UdpSocket>,
    /// Datagrams that found no room in any of them, since the namespace was made, IPv4 and IPv6.
    pub no_room: u64,
}

impl UdpSockets {
    /// Looks around in the namespace of the calling thread.
    pub fn observe() -> UdpSockets {
        let read = |name: &str| files::text(format!("/proc/thread-self/net/{name}"));
        let table = |name: &str| read(name).map(|text| table(&text)).unwrap_or_default();
        let sockets = table("udp").into_iter().chain(table("udp6"));
        let (v4, v6) = (read("snmp"), read("snmp6"));
        let no_room = v4.and_then(|text| snmp::counter(&text, "Udp", "RcvbufErrors")).unwrap_or(0)
            + v6.and_then(|text| snmp::counter6(&text, "Udp6RcvbufErrors")).unwrap_or(0);
        UdpSockets { sockets: sockets.map(|socket| (socket.inode, socket)).collect(), no_room }
    }
}

/// The process that has the socket of this inode, by number and name, as far as this process may see. The name is as the
/// process gave it: any bytes.
pub fn owner(inode: u64) -> Option<(u32, String)> {
    let link = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        files
            .flatten()
            .any(|file| fs::read_link(file.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
    };
    let pid = files::numbered("/proc", "").into_iter().find(has)?;
    Some((pid, files::text(format!("/proc/{pid}/comm"))?))
}

/// `/proc/net/udp` or `udp6`: a line of titles, then one for each socket.
fn table(text: &str) -> Vec<UdpSocket> {
    text.lines().skip(1).filter_map(line).collect()
}

fn line(line: &str) -> Option<UdpSocket> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    // sl, local, remote, st, queues, tr:when, retrnsmt, uid, timeout, inode, ref, pointer, drops
    let [_, local, _, _, _, _, _, _, _, inode, _, _, drops] = fields.as_slice() else {
        return None;
    };
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let local = SocketAddr::new(ip(address)?, port);
    Some(UdpSocket { local, inode: inode.parse().ok()?, drops: drops.parse().ok()? })
}

/// An address as words of 32 bits in the machine's own order.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = text.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
                          inode ref pointer drops            \n";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_tables_are_read() {
        let v4 = "  123: 0100007F:1389 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 \
                  0000000000000000 1769      \n";
        let socket = UdpSocket { local: ([127, 0, 0, 1], 5001).into(), inode: 4711, drops: 1769 };
        assert_eq!(table(&format!("{TITLES}{v4}")), [socket]);
        let v6 = "    1: 00000000000000000000000001000000:1389 00000000000000000000000000000000:0000 07 \
                  00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
        let found = table(&format!("{TITLES}{v6}"));
        assert_eq!(
            found.first().map(|socket| socket.local),
            Some((Ipv6Addr::LOCALHOST, 5001).into())
        );
        for broken in
            ["", "1: 2", "1: 0100007F 0 7 0 0 0 0 0 1 2 3 4", "1: x:y 0 7 0 0 0 0 0 1 2 3 4"]
        {
            assert_eq!(table(&format!("{TITLES}{broken}\n")), []);
        }
    }

    #[test]
    fn a_socket_of_this_process_is_found_with_its_owner() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = socket.local_addr().unwrap();
        let all = UdpSockets::observe();
        let found = all.sockets.values().find(|socket| socket.local == local).unwrap();
        assert_eq!(found.drops, 0);
        assert_eq!(owner(found.inode).map(|(pid, _)| pid), Some(std::process::id()));
    }
}
