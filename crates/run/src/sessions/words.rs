//! Groups of sessions in words, for reports.

use wirebeat_endpoint::FIRST_CLIENT_PORT;
use wirebeat_traffic::program::script::PoolWalk;
use wirebeat_traffic::values::session::{AddressPool, Pool, StackChoice};
use wirebeat_units::human;

/// Ranges of addresses that are written; the scenario in the report has all.
const RANGES: usize = 4;

/// The addresses of a pool, the first of them where there are many.
fn addresses(pool: &Pool) -> String {
    let all = &pool.addresses;
    if all.0.len() <= RANGES {
        return all.to_string();
    }
    let first = AddressPool(all.0.iter().take(RANGES).copied().collect());
    format!("{first} and more, {} in all", human::count(all.len()))
}

/// The addresses and ports of an end; `system`: where nothing is written, the system chooses.
pub(super) fn pool(walk: &PoolWalk, stack: StackChoice, system: bool) -> String {
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
        (Some(ports), false) => format!("{}, ports {ports}", addresses(pool)),
        (Some(ports), true) if system => format!("addresses of the system, ports {ports}"),
        (Some(ports), true) => format!("ports {ports}"),
        (None, false) if stack == StackChoice::Own => {
            format!("{}, ports from {FIRST_CLIENT_PORT} on", addresses(pool))
        }
        (None, false) => format!("{}, ports of the system", addresses(pool)),
        (None, true) if system => "addresses and ports of the system".to_owned(),
        (None, true) => "any".to_owned(),
    }
}
