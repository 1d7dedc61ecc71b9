//! The processors: what they are, and what puts them to sleep or slows them down.

use std::collections::BTreeSet;
use std::fs;

use serde::Serialize;

use crate::{CpuList, files};

const ROOT: &str = "/sys/devices/system/cpu";

/// The processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// The first one's model: "Intel(R) Xeon(R) …".
    pub model: Option<String>,
    /// Those that run.
    pub online: Option<CpuList>,
    /// Those that the scheduler leaves alone (`isolcpus=`).
    pub isolated: Option<CpuList>,
    /// Those without a timer tick while one thread runs (`nohz_full=`).
    pub tickless: Option<CpuList>,
    /// Whether two threads share a core.
    pub simultaneous_threads: Option<bool>,
    /// The rules by which the frequency changes: "performance", "schedutil"; one entry where all
    /// CPUs have the same; none where the frequency is not the kernel's to change.
    pub governors: Vec<String>,
    /// The deepest sleep that is allowed on any CPU.
    pub deepest_idle: Option<IdleState>,
    /// What the machine runs on, where it is a virtual one: "QEMU", "Amazon EC2", or "unknown".
    pub hypervisor: Option<String>,
}

/// A sleeping state of a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleState {
    /// "POLL", "C1", "C6".
    pub name: String,
    /// Microseconds until it works again.
    pub exit_latency_us: u64,
}

impl Cpu {
    /// The CPUs that are switched on; `None` where the system does not tell.
    pub fn online() -> Option<CpuList> {
        CpuList::parse(&fs::read_to_string(format!("{ROOT}/online")).ok()?)
    }

    pub(crate) fn observe() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let list = |name: &str| CpuList::parse(&fs::read_to_string(format!("{ROOT}/{name}")).ok()?);
        let online = list("online");
        let cpus = online.as_ref().map_or(&[][..], CpuList::cpus);
        Cpu {
            model: field(&info, "model name").or_else(|| field(&info, "Model")),
            isolated: list("isolated"),
            tickless: list("nohz_full"),
            simultaneous_threads: files::value::<u8>(format!("{ROOT}/smt/active"))
                .map(|on| on == 1),
            governors: governors(cpus),
            deepest_idle: cpus
                .iter()
                .filter_map(|&cpu| deepest(cpu))
                .max_by_key(|s| s.exit_latency_us),
            hypervisor: hypervisor(&info),
            online,
        }
    }
}

/// The first `name: value` line of `/proc/cpuinfo`.
fn field(info: &str, name: &str) -> Option<String> {
    info.lines().filter_map(|line| line.split_once(':')).find_map(|(key, value)| {
        (key.trim() == name && !value.trim().is_empty()).then(|| value.trim().to_owned())
    })
}

fn governors(cpus: &[u32]) -> Vec<String> {
    let governor = |cpu| files::text(format!("{ROOT}/cpu{cpu}/cpufreq/scaling_governor"));
    cpus.iter().filter_map(governor).collect::<BTreeSet<_>>().into_iter().collect()
}

fn deepest(cpu: u32) -> Option<IdleState> {
    let folder = format!("{ROOT}/cpu{cpu}/cpuidle");
    files::numbered(&folder, "state")
        .into_iter()
        .map(|state| format!("{folder}/state{state}"))
        .filter(|state| files::value::<u8>(format!("{state}/disable")) != Some(1))
        .filter_map(|state| {
            let exit_latency_us = files::value(format!("{state}/latency"))?;
            Some(IdleState { name: files::text(format!("{state}/name"))?, exit_latency_us })
        })
        .max_by_key(|state| state.exit_latency_us)
}

/// The maker of the virtual machine. Firmware names it even where the processor has no flag for it.
fn hypervisor(info: &str) -> Option<String> {
    const MAKERS: [&str; 9] = [
        "QEMU",
        "KVM",
        "Amazon EC2",
        "Google",
        "VMware",
        "Microsoft Corporation",
        "innotek",
        "Xen",
        "Parallels",
    ];
    let flagged = field(info, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    let firmware = ["sys_vendor", "product_name", "bios_vendor"]
        .into_iter()
        .filter_map(|name| files::text(format!("/sys/class/dmi/id/{name}")))
        .find(|text| MAKERS.iter().any(|maker| text.contains(maker)));
    // A physical machine of one of these makers has no flag; on Arm there is none to have.
    match firmware {
        Some(maker) if flagged || !info.contains("flags") => Some(maker),
        _ if flagged => Some(files::text("/sys/hypervisor/type").unwrap_or("unknown".to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "processor\t: 0\nmodel name\t: Example CPU @ 2GHz\nflags\t\t: fpu tsc hypervisor\n\n\
                        processor\t: 1\nmodel name\t: Other\n";

    #[test]
    fn the_first_processor_names_the_model() {
        assert_eq!(field(INFO, "model name").as_deref(), Some("Example CPU @ 2GHz"));
        assert_eq!(field(INFO, "Model"), None);
        assert_eq!(field("model name\t:\n", "model name"), None);
    }

    #[test]
    fn the_processors_flag_betrays_a_virtual_machine() {
        assert!(hypervisor(INFO).is_some());
        assert_eq!(hypervisor("flags: fpu hypervisors\n"), None);
    }
}
