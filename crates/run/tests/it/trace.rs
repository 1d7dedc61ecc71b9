//! Nothing that was attached or made outlives its run.

use wirebeat_testbed::{Capability, require};

use crate::world::{Engine, cable, ports, run};

#[test]
fn no_program_stays_attached_after_a_run() {
    require!(Capability::NetworkNamespaces, Capability::XdpLiveFrames);
    let bed = cable();
    let text = format!(
        "{}flows:
  short: {{ from: a, to: b, packet: [ {{ ipv4: {{}} }}, {{ udp: {{}} }} ], rate: 1kpps, count: 10 }}
",
        ports(Engine::Kernel, "")
    );
    let attached = || {
        [&bed.a, &bed.b].map(|end| {
            let link = end.netlink().unwrap().link_by_index(end.link.index).unwrap();
            link.xdp.is_some()
        })
    };
    {
        let running = crate::world::prepared(&text, Some(&bed));
        assert_eq!(attached(), [false, true], "the receiver attaches its program");
        drop(running);
    }
    assert_eq!(attached(), [false, false]);
    run(&text, Some(&bed));
    assert_eq!(attached(), [false, false]);
}
