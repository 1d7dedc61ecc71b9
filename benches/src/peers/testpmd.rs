//! DPDK's testpmd on AF_XDP: the fastest way out of user space over an ordinary interface. Without huge
//! pages, which need settings of the machine that a benchmark does not touch. Debian's package of
//! DPDK without "-dev" has no testpmd in it.

use super::{Ending, Job, Need, Peer, Place, command};
use crate::sinks::Sink;

pub const PEER: Peer = Peer {
    name: "DPDK testpmd on AF_XDP",
    program: "dpdk-testpmd",
    package: "dpdk-dev",
    sinks: &[Sink::Unread, Sink::Dropping],
    busy_waits: false,
    place: Place::ByItself,
    receiver: None,
    needs_receiver: Need::ToRead,
    sender,
    // it attaches an XDP program to its interface
    ending: Ending::Asked,
};

fn sender(job: &Job<'_>) -> Vec<String> {
    let Job { interface, source, destination, destination_mac, cores, .. } = job;
    let (main, send) = (cores.other, cores.send);
    let environment = format!(
        "dpdk-testpmd --no-pci --no-huge -m 512 --no-telemetry --file-prefix=wirebeat-bench \
         -l {main},{send} --main-lcore={main} --vdev=net_af_xdp0,iface={interface} --"
    );
    let application = format!(
        "--forward-mode=txonly --txpkts=60 --total-num-mbufs=8192 --no-mlockall --auto-start \
         --stats-period=60 --eth-peer=0,{destination_mac} --tx-ip={source},{destination} --tx-udp=9,9"
    );
    command(&format!("{environment} {application}"), &[])
}
