//! Groups of sessions in words, for reports.

use wirebeat_traffic::program::script::PoolWalk;

/// The addresses and ports of an end; `system`: where nothing is written, the system chooses.
pub(super) fn pool(walk: &PoolWalk, system: bool) -> String {
    let pool = &walk.pool;
    let one_address = pool.addresses.len() == 1;
    let one_port = pool.ports.as_ref().is_some_and(|ports| ports.len() == 1);
    match (&pool.ports, pool.addresses.is_empty()) {
        (Some(ports), false) if one_address && one_port => {
            let address = pool.addresses.get(0).map_or(String::new(), |address| match address {
                std::net::IpAddr::V6(address) => format!("[{address}]"),
                std::net::IpAddr::V4(address) => address.to_string(),
            });
            format!("{address}:{ports}")
        }
        (Some(ports), false) => format!("{}, ports {ports}", pool.addresses),
        (Some(ports), true) if system => format!("addresses of the system, ports {ports}"),
        (Some(ports), true) => format!("ports {ports}"),
        (None, false) => format!("{}, ports of the system", pool.addresses),
        (None, true) if system => "addresses and ports of the system".to_owned(),
        (None, true) => "any".to_owned(),
    }
}
