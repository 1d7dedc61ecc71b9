//! Prints what is known of this machine and its interfaces, and its noise over a tenth of a second.

use std::error::Error;
use std::time::Duration;

use wirebeat_host::{CpuTimes, Interface, Machine, noise};
use wirebeat_netlink::Netlink;

fn main() -> Result<(), Box<dyn Error>> {
    let before = CpuTimes::now();
    println!("{}", serde_json::to_string_pretty(&Machine::observe())?);
    let mut netlink = Netlink::open()?;
    for link in netlink.links()? {
        println!("{}", serde_json::to_string_pretty(&Interface::observe(&mut netlink, &link))?);
    }
    println!("{}", serde_json::to_string_pretty(&noise(Duration::from_millis(100)))?);
    println!("{}", serde_json::to_string_pretty(&CpuTimes::now().since(&before))?);
    Ok(())
}
