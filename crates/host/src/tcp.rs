//! TCP connections of a network namespace, that of the calling thread (`/proc/net/tcp` and `tcp6`).

use std::net::IpAddr;

use crate::files;
use crate::udp::ip;

/// The state of an established connection in the kernel's table (`TCP_ESTABLISHED`, include/net/tcp_states.h).
const ESTABLISHED: &str = "01";

/// The local addresses of established connections, one for each. IPv4 addresses of sockets for both families are IPv4.
pub fn established() -> Vec<IpAddr> {
    let read = |name: &str| files::text(format!("/proc/thread-self/net/{name}"));
    let table = |name: &str| read(name).map(|text| table(&text)).unwrap_or_default();
    [table("tcp"), table("tcp6")].concat()
}

/// A line of titles, then one for each socket.
fn table(text: &str) -> Vec<IpAddr> {
    text.lines().skip(1).filter_map(line).collect()
}

fn line(line: &str) -> Option<IpAddr> {
    // sl, local, remote, st, …
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _, state) = (fields.next()?, fields.next()?, fields.next()?);
    let (address, _) = local.split_once(':')?;
    (state == ESTABLISHED).then(|| ip(address)).flatten().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TITLES: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    #[cfg(target_endian = "little")]
    fn established_connections_are_told_from_others() {
        let listening = "   0: 0100007F:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n";
        let mapped = "   1: 0000000000000000FFFF00000700000A:1389 0000000000000000FFFF00000800000A:99 01 0:0 0:0 0 0 0 1\n";
        let found = table(&format!("{TITLES}{listening}{mapped}"));
        assert_eq!(found, ["10.0.0.7".parse::<IpAddr>().unwrap()]);
        for broken in ["", "1:", "1: 0100007F 0 01", "1: x:y 0 01", "1: 01:2 0 01"] {
            assert_eq!(table(&format!("{TITLES}{broken}\n")), Vec::<IpAddr>::new());
        }
    }

    #[test]
    fn a_connection_of_this_host_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(established().contains(&"127.0.0.1".parse().unwrap()));
    }
}
