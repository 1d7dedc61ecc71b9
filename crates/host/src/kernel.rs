//! The kernel and the settings of it that touch timing and eBPF.

use std::collections::BTreeSet;
use std::fs;

use rustix::system::uname;
use rustix::thread::current_timer_slack;
use serde::Serialize;

use crate::files;

/// The kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Release: "6.12.5-amd64".
    pub release: Option<String>,
    /// The build, with the preemption model: "#1 SMP PREEMPT_DYNAMIC …".
    pub version: Option<String>,
    /// "x86_64", "aarch64".
    pub architecture: Option<String>,
    /// What its clocks are read from: "tsc", "kvm-clock", "hpet".
    pub clocksource: Option<String>,
    /// Transparent huge pages: "always", "madvise", "never".
    pub transparent_huge_pages: Option<String>,
    /// How late a sleep of this thread may end on purpose, in nanoseconds (50 000 unless changed).
    pub timer_slack_ns: Option<u64>,
    /// Whether the kernel's types are published, which eBPF programs are fitted with.
    pub btf: Option<bool>,
    /// Whether eBPF programs are compiled to machine code.
    pub bpf_jit: Option<bool>,
    /// Whether a daemon moves interrupts between CPUs while we measure.
    pub irqbalance: Option<bool>,
}

impl Kernel {
    /// Looks around; `running` are the names of the processes.
    pub(crate) fn observe(running: &BTreeSet<String>) -> Self {
        let name = uname();
        let text = |field: &std::ffi::CStr| field.to_str().ok().map(str::to_owned);
        Kernel {
            release: text(name.release()),
            version: text(name.version()),
            architecture: text(name.machine()),
            clocksource: files::text(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            transparent_huge_pages: files::text("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| files::bracketed(&text)),
            timer_slack_ns: current_timer_slack().ok(),
            btf: fs::exists("/sys/kernel/btf/vmlinux").ok(),
            // 2 is "on, with debugging".
            bpf_jit: files::value::<u8>("/proc/sys/net/core/bpf_jit_enable").map(|jit| jit != 0),
            // Without a view of the processes nothing can be said.
            irqbalance: (!running.is_empty()).then(|| running.contains("irqbalance")),
        }
    }
}
