//! Sources of measurement error: one rule for each thing, from facts to a finding.
//!
//! A rule looks at the facts and says nothing when all is well, or when it is not known. Limits state
//! where they come from.

use serde::Serialize;
use wirebeat_host::Interface;
use wirebeat_units::human;

use super::Facts;

/// A CPU that takes longer to wake is noticed in what leaves after a pause: twice the exit latency of C1
/// on current processors.
const WAKE_MAX_US: u64 = 4;
/// One tick of the kernel's accounting in the time that is listened is chance; more is not.
const STEAL_MIN_PER_CENT: f64 = 4.0;
/// A current NIC's usual smallest receive delay; the driver's default is often 50 µs or more.
const COALESCE_MAX_US: u32 = 10;

/// Something on this machine that makes measurements less exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about: "CPU frequency", "eth0".
    pub about: String,
    /// What is the case and what that does to measurements.
    pub what: String,
    /// What would mend it; `None` where nothing can be done on this machine.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(about: &str, what: impl Into<String>) -> Finding {
        Finding { about: about.to_owned(), what: what.into(), remedy: None }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Finding {
        self.remedy = Some(remedy.into());
        self
    }
}

/// The rules about the machine: the gravest first.
const OF_MACHINE: [fn(&Facts) -> Option<Finding>; 10] = [
    steal,
    noise,
    single_cpu,
    clock_source,
    frequency,
    sleep,
    interpreter,
    irqbalance,
    virtual_machine,
    clock_synchronisation,
];

/// The rules about an interface.
const OF_INTERFACE: [fn(&Interface) -> Option<Finding>; 5] =
    [joining, rings, coalescing, affinity, generic_xdp];

/// Sources of measurement error, by `facts`.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let of_machine = OF_MACHINE.iter().filter_map(|rule| rule(facts));
    // Only interfaces with a device behind them have rings, interrupts and a line.
    let devices = facts.interfaces.iter().filter(|interface| interface.driver.is_some());
    let of_interfaces =
        devices.flat_map(|interface| OF_INTERFACE.iter().filter_map(|rule| rule(interface)));
    of_machine.chain(of_interfaces).collect()
}

fn steal(facts: &Facts) -> Option<Finding> {
    let cpus = facts.cpu.cpus.as_ref()?.len();
    let stolen = facts.cpu.steal_ns()? as f64;
    let per_cent = 100.0 * stolen / (facts.cpu.elapsed_ns as f64 * cpus as f64);
    (per_cent >= STEAL_MIN_PER_CENT).then(|| {
        Finding::new(
            "steal time",
            format!(
                "the hypervisor took {per_cent:.0} % of the CPU time just now: frames are late then"
            ),
        )
        .remedy("use a virtual machine with CPUs of its own, or a physical one")
    })
}

fn noise(facts: &Facts) -> Option<Finding> {
    let noise = &facts.noise;
    (noise.above_20_us > 0).then(|| {
        let per_second = noise.above_20_us as f64 * 1e9 / noise.elapsed_ns.max(1) as f64;
        let longest = human::time(noise.longest_gap_ns as f64);
        Finding::new(
            "interruptions",
            format!(
                "a busy program is stopped {per_second:.0} times a second for more than 20 µs, up to \
                 {longest}: no sender in user space is more exact here"
            ),
        )
        .remedy(
            "stop other programs; boot with isolcpus= and nohz_full= for a CPU, and send from it with \
             --cpu",
        )
    })
}

fn single_cpu(facts: &Facts) -> Option<Finding> {
    let online = facts.machine.cpu.online.as_ref()?;
    (online.cpus().len() == 1).then(|| {
        Finding::new("CPUs", "there is one CPU: sender, receiver and interrupts stop each other")
            .remedy("use a machine with two CPUs or more, or send and receive on two machines")
    })
}

fn clock_source(facts: &Facts) -> Option<Finding> {
    let source = facts.machine.kernel.clocksource.as_deref()?;
    matches!(source, "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit").then(|| {
        Finding::new(
            "clock source",
            format!(
                "time is read from '{source}', which takes a microsecond or is as coarse as a tick"
            ),
        )
        .remedy("boot with clocksource=tsc, if the processor's counter is stable")
    })
}

fn frequency(facts: &Facts) -> Option<Finding> {
    let governors = &facts.machine.cpu.governors;
    let slow = governors.iter().find(|governor| *governor != "performance")?;
    Some(
        Finding::new(
            "CPU frequency",
            format!(
                "it follows the load (governor '{slow}'): a CPU that slept sends slower at first"
            ),
        )
        .remedy("`cpupower frequency-set --governor performance`"),
    )
}

fn sleep(facts: &Facts) -> Option<Finding> {
    let deepest = facts.machine.cpu.deepest_idle.as_ref()?;
    (deepest.exit_latency_us > WAKE_MAX_US).then(|| {
        Finding::new(
            "sleep states",
            format!(
                "idle CPUs sleep as deep as {} and take {} µs to wake: what waits asleep is late by it",
                deepest.name, deepest.exit_latency_us
            ),
        )
        .remedy(format!("send with --wait spin, or `cpupower idle-set --disable-by-latency {WAKE_MAX_US}`"))
    })
}

fn interpreter(facts: &Facts) -> Option<Finding> {
    (facts.machine.kernel.bpf_jit == Some(false)).then(|| {
        Finding::new("eBPF", "programs are interpreted: the kernel engine is several times slower")
            .remedy("`sysctl net.core.bpf_jit_enable=1`")
    })
}

fn irqbalance(facts: &Facts) -> Option<Finding> {
    (facts.machine.kernel.irqbalance == Some(true)).then(|| {
        Finding::new("irqbalance", "it moves interrupts to other CPUs while a run measures")
            .remedy("`systemctl stop irqbalance` for the time of the measurement")
    })
}

fn virtual_machine(facts: &Facts) -> Option<Finding> {
    let hypervisor = facts.machine.cpu.hypervisor.as_deref()?;
    let maker = if hypervisor == "unknown" { String::new() } else { format!(" ({hypervisor})") };
    Some(Finding::new(
        "virtual machine",
        format!(
            "this is one{maker}: the host's own work shows as gaps that nothing here can explain"
        ),
    ))
}

fn clock_synchronisation(facts: &Facts) -> Option<Finding> {
    let clock = facts.machine.clock.as_ref()?;
    (!clock.synchronised).then(|| {
        Finding::new(
            "clock",
            "it is not synchronised: one-way delays to other hosts are uncertain (those on this host \
             are exact)",
        )
        .remedy("run chronyd, or ptp4l and phc2sys, on both hosts")
    })
}

fn joining(interface: &Interface) -> Option<Finding> {
    let on = |name: &'static str, offload: Option<bool>| (offload == Some(true)).then_some(name);
    let offloads = &interface.offloads;
    let joined: Vec<&str> =
        [on("gro", offloads.gro), on("lro", offloads.lro)].into_iter().flatten().collect();
    if joined.is_empty() {
        return None;
    }
    let name = &interface.name;
    let switches: Vec<String> = joined.iter().map(|name| format!("{name} off")).collect();
    Some(
        Finding::new(
            name,
            format!(
                "received frames are held back to be joined ({}): the engines packet and socket see \
                 them later",
                joined.join(", ").to_uppercase()
            ),
        )
        .remedy(format!("`ethtool -K {name} {}`, or receive with the engine kernel", switches.join(" "))),
    )
}

fn rings(interface: &Interface) -> Option<Finding> {
    let name = &interface.name;
    let (Some(now), Some(most)) = (interface.rx_ring, interface.rx_ring_max) else {
        return Some(Finding::new(
            name,
            "the driver does not tell the size of its receive ring: frames that it loses there go unseen",
        ));
    };
    (now < most).then(|| {
        Finding::new(
            name,
            format!(
                "the receive ring has {now} of {most} entries: bursts longer than that are lost"
            ),
        )
        .remedy(format!("`ethtool -G {name} rx {most}`"))
    })
}

fn coalescing(interface: &Interface) -> Option<Finding> {
    let name = &interface.name;
    let delay = interface.rx_coalesce_us.filter(|delay| *delay > COALESCE_MAX_US);
    let what = match (delay, interface.adaptive_coalescing) {
        (_, Some(true)) => "it delays receive interrupts as it sees fit".to_owned(),
        (Some(delay), _) => format!("it delays receive interrupts by up to {delay} µs"),
        (None, _) => return None,
    };
    Some(
        Finding::new(name, format!("{what}: frames are stamped that much later"))
            .remedy(format!("`ethtool -C {name} adaptive-rx off rx-usecs 0`")),
    )
}

/// Several queues on one CPU are as slow as one.
fn affinity(interface: &Interface) -> Option<Finding> {
    let effective: Option<Vec<&[u32]>> =
        interface.interrupts.iter().map(|irq| Some(irq.effective.as_ref()?.cpus())).collect();
    let effective = effective?;
    let (first, rest) = effective.split_first()?;
    let [cpu] = first else { return None };
    let queues = interface.rx_queues;
    (queues > 1 && !rest.is_empty() && rest.iter().all(|cpus| cpus == first)).then(|| {
        Finding::new(
            &interface.name,
            format!(
                "the interrupts of all {queues} queues go to CPU {cpu}: the others do not help"
            ),
        )
        .remedy("write other CPUs into /proc/irq/*/smp_affinity_list, and keep irqbalance away")
    })
}

fn generic_xdp(interface: &Interface) -> Option<Finding> {
    (interface.xdp.as_deref() == Some("generic")).then(|| {
        Finding::new(
            &interface.name,
            "an XDP program is attached in generic mode: frames have passed half the stack before it",
        )
        .remedy("detach it, or use a driver with native XDP")
    })
}

#[cfg(test)]
mod tests {
    use wirebeat_host::{
        CpuList, CpuUse, IdleState, Interrupt, Machine, Noise, Offloads, PerCpu, Timestamps,
    };

    use super::*;

    /// A machine without faults.
    fn quiet() -> Facts {
        let mut machine = Machine::observe();
        machine.kernel.clocksource = Some("tsc".to_owned());
        machine.kernel.bpf_jit = Some(true);
        machine.kernel.irqbalance = Some(false);
        machine.cpu.online = CpuList::parse("0-3");
        machine.cpu.governors = vec!["performance".to_owned()];
        machine.cpu.deepest_idle = Some(IdleState { name: "C1".to_owned(), exit_latency_us: 2 });
        machine.cpu.hypervisor = None;
        machine.clock = None;
        let cpu = PerCpu { idle_ns: 500_000_000, ..PerCpu::default() };
        Facts {
            machine,
            interfaces: vec![interface()],
            noise: Noise { elapsed_ns: 500_000_000, reads: 1, ..Noise::default() },
            cpu: CpuUse { elapsed_ns: 500_000_000, process: None, cpus: Some(vec![cpu; 4]) },
        }
    }

    fn interface() -> Interface {
        Interface {
            name: "eth1".to_owned(),
            kind: None,
            driver: Some("ice".to_owned()),
            state: "up".to_owned(),
            mac: None,
            mtu: 1500,
            speed_bps: None,
            tx_queues: 4,
            rx_queues: 4,
            offloads: Offloads::default(),
            rx_ring: Some(4096),
            rx_ring_max: Some(4096),
            tx_ring: None,
            tx_ring_max: None,
            rx_coalesce_us: Some(0),
            rx_coalesce_frames: None,
            tx_coalesce_us: None,
            adaptive_coalescing: Some(false),
            channels: Some(4),
            rss: None,
            pause_sent: None,
            pause_heeded: None,
            numa_node: None,
            interrupts: vec![irq("0"), irq("1")],
            xdp: None,
            xdp_features: None,
            af_xdp: None,
            timestamps: Timestamps::default(),
        }
    }

    fn irq(cpus: &str) -> Interrupt {
        let effective = CpuList::parse(cpus);
        Interrupt { number: 7, name: "eth1-0".to_owned(), allowed: None, effective }
    }

    /// What is found when a quiet machine is changed.
    fn found(change: impl FnOnce(&mut Facts)) -> Vec<(String, String)> {
        let mut facts = quiet();
        change(&mut facts);
        judge(&facts).into_iter().map(|f| (f.about, f.remedy.unwrap_or_default())).collect()
    }

    fn one(about: &str, remedy: &str) -> Vec<(String, String)> {
        vec![(about.to_owned(), remedy.to_owned())]
    }

    #[test]
    fn a_quiet_machine_is_left_alone() {
        assert_eq!(judge(&quiet()), []);
    }

    #[test]
    fn each_fault_of_the_machine_is_found_alone() {
        let about = |change: fn(&mut Facts)| {
            let found = found(change);
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].0.clone()
        };
        assert_eq!(about(|f| f.machine.cpu.governors.push("powersave".into())), "CPU frequency");
        assert_eq!(about(|f| f.machine.kernel.irqbalance = Some(true)), "irqbalance");
        assert_eq!(about(|f| f.machine.kernel.bpf_jit = Some(false)), "eBPF");
        assert_eq!(about(|f| f.machine.cpu.hypervisor = Some("QEMU".into())), "virtual machine");
        assert_eq!(about(|f| f.machine.cpu.online = CpuList::parse("0")), "CPUs");
        assert_eq!(about(|f| f.machine.kernel.clocksource = Some("hpet".into())), "clock source");
        assert_eq!(about(|f| f.noise.above_20_us = 3), "interruptions");
        let deep = |f: &mut Facts| {
            f.machine.cpu.deepest_idle =
                Some(IdleState { name: "C6".into(), exit_latency_us: 133 });
        };
        assert_eq!(about(deep), "sleep states");
    }

    #[test]
    fn a_tick_of_steal_time_is_chance_and_more_is_not() {
        let stolen =
            |ticks: u64| found(|f| f.cpu.cpus.as_mut().unwrap()[0].steal_ns = ticks * 10_000_000);
        assert_eq!(stolen(1), []);
        assert_eq!(stolen(20)[0].0, "steal time");
    }

    #[test]
    fn each_fault_of_an_interface_comes_with_its_command() {
        let of = |change: fn(&mut Interface)| found(|facts| change(&mut facts.interfaces[0]));
        assert_eq!(of(|i| i.rx_ring = Some(256)), one("eth1", "`ethtool -G eth1 rx 4096`"));
        assert_eq!(
            of(|i| i.offloads.gro = Some(true)),
            one("eth1", "`ethtool -K eth1 gro off`, or receive with the engine kernel")
        );
        let delayed = one("eth1", "`ethtool -C eth1 adaptive-rx off rx-usecs 0`");
        assert_eq!(of(|i| i.rx_coalesce_us = Some(50)), delayed);
        assert_eq!(of(|i| i.adaptive_coalescing = Some(true)), delayed);
        assert_eq!(of(|i| i.rx_ring = None)[0].0, "eth1");
        assert_eq!(of(|i| i.xdp = Some("generic".into()))[0].0, "eth1");
        let same = of(|i| i.interrupts = vec![irq("2"), irq("2")]);
        assert_eq!(same[0].0, "eth1");
    }

    #[test]
    fn virtual_interfaces_have_no_hardware_to_blame() {
        let none = found(|facts| {
            facts.interfaces[0].driver = None;
            facts.interfaces[0].rx_ring = None;
        });
        assert_eq!(none, []);
    }
}
