//! Facts about this machine that decide how far a measurement can be trusted.
//!
//! [`Machine::observe`] and [`Interface::observe`] gather what a report names and `wirebeat doctor`
//! judges; [`CpuTimes`] says what a run cost, [`noise`] how often the machine stops a program that
//! only reads the clock, [`udp`] what programs' sockets had no room for, [`Damaged`] what the stack found damaged, and [`tcp_info`] how one
//! connection fares. Everything is plain data. A fact that cannot be had is `None`: no fact is
//! worth failing a run for. What a fact means for a measurement is not decided here.

mod accounting;
pub mod card;
mod clock;
mod cpu;
mod cpulist;
mod damage;
mod files;
mod interface;
mod kernel;
pub mod large_pages;
pub mod memory;
mod noise;
mod privileges;
mod snmp;
mod socket_options;
pub mod tcp;
mod tcp_info;
pub mod udp;
mod zero_copy;

use serde::Serialize;

pub use accounting::{CpuTime, CpuTimes, CpuUse, PerCpu};
pub use clock::ClockSync;
pub use cpu::{Cpu, IdleState};
pub use cpulist::CpuList;
pub use damage::Damaged;
pub use interface::{AfXdp, Interface, Interrupt, Offloads, Timestamps, near_cpus};
pub use kernel::Kernel;
pub use noise::{Noise, gaps, noise};
pub use privileges::{MemoryLock, Privileges};
pub use socket_options::{
    IntOption, MTU_DISCOVER_DO, MTU_DISCOVER_DONT, has_sctp_association, int_option,
    max_pacing_rate, set_bind_address_no_port, set_int_option, set_max_pacing_rate,
};
pub use tcp_info::{TcpInfo, TcpState, set_tcp_max_segment, tcp_info};
pub use zero_copy::{MSG_ZEROCOPY, ZeroCopyNotice, zero_copy_notice};

/// What is known of this machine and of this process's rights on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// The kernel and its settings.
    pub kernel: Kernel,
    /// The processors.
    pub cpu: Cpu,
    /// How far the clock can be compared with other hosts'.
    pub clock: Option<ClockSync>,
    /// What this process may do.
    pub privileges: Privileges,
}

impl Machine {
    /// Looks around; takes a few milliseconds.
    pub fn observe() -> Self {
        let running = files::running();
        Machine {
            kernel: Kernel::observe(&running),
            cpu: Cpu::observe(),
            clock: ClockSync::observe(&running),
            privileges: Privileges::observe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linux_tells_the_essentials() {
        let machine = Machine::observe();
        assert!(
            machine
                .kernel
                .release
                .as_deref()
                .is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
        );
        let online = machine.cpu.online.as_ref().unwrap();
        assert!(!online.cpus().is_empty());
        assert!(machine.kernel.timer_slack_ns.is_some());
    }

    #[test]
    fn the_facts_serialize_with_nulls_for_what_is_missing() {
        let json = serde_json::to_value(Machine::observe()).unwrap();
        for (group, fact) in [("kernel", "clocksource"), ("cpu", "isolated"), ("privileges", "bpf")]
        {
            assert!(json[group].as_object().unwrap().contains_key(fact), "{json}");
        }
    }
}
