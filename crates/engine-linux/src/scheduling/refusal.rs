//! Why a thread may not have more: capabilities, limits, control groups, the kernel's real-time budget. And how much of
//! a CPU real time may use.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use wirebeat_units::{Fault, fault};

use super::{Attributes, FIFO, HIGHEST};

/// The kernel's real-time budget for all of the machine, in microseconds (sched(7)).
const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";

fn may_raise() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE))
}

/// The lowest nice value that this process may give its threads.
pub(super) fn best_nice() -> i32 {
    match may_raise() {
        true => HIGHEST,
        false => nice_of(getrlimit(Resource::Nice).current),
    }
}

/// A limit of 1 to 40 permits nice values down to 20 less the limit (getrlimit(2)).
fn nice_of(limit: Option<u64>) -> i32 {
    limit.map_or(HIGHEST, |limit| (20 - i32::try_from(limit.min(40)).unwrap_or(40)).min(19))
}

/// Why the weight is not the heaviest.
pub(super) fn nice_refusal() -> String {
    "a higher weight needs CAP_SYS_NICE, or RLIMIT_NICE of 40 (ulimit -e 40)".to_owned()
}

/// Why SCHED_FIFO is refused here, with the remedy; `None` where it is permitted.
pub fn realtime_refusal() -> Option<Fault> {
    let tried = std::thread::scope(|scope| {
        let attempt = || Attributes::fifo().set();
        scope.spawn(attempt).join()
    });
    match tried {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(explain(&error)),
        Err(_) => Some(fault!("the attempt panicked"; "use priority 'high'")),
    }
}

fn explain(error: &std::io::Error) -> Fault {
    let limit = getrlimit(Resource::Rtprio).current;
    if !may_raise() && limit.is_some_and(|limit| limit < u64::from(FIFO)) {
        return fault!(
            "CAP_SYS_NICE is missing and RLIMIT_RTPRIO is {}", limit.unwrap_or(0);
            "run as root, or allow {FIFO} (ulimit -r {FIFO})"
        );
    }
    if value(RUNTIME) == Some(0) {
        return fault!(
            "kernel.sched_rt_runtime_us is 0, which throttles real time to nothing";
            "write 950000 to it"
        );
    }
    if let Some(group) = group().filter(|group| group.runtime == 0) {
        return fault!(
            "the control group {} has no real-time budget (cpu.rt_runtime_us is 0)", group.path;
            "write 950000 to it, or start from another group"
        );
    }
    fault!("the system refused it ({error})"; "use priority 'high'")
}

/// The share of a CPU that real time may use before the kernel throttles it, from 0 to 1.
pub fn realtime_share() -> f64 {
    let share = |runtime: Option<i64>, period: Option<i64>| match (runtime, period) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => {
            (runtime as f64 / period as f64).clamp(0.0, 1.0)
        }
        _ => 1.0,
    };
    let machine = share(value(RUNTIME), value(PERIOD));
    let group = group().map_or(1.0, |group| share(Some(group.runtime), Some(group.period)));
    machine.min(group)
}

fn value(path: &str) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The real-time budget of this process's control group, where groups have one (CONFIG_RT_GROUP_SCHED).
#[derive(Debug, PartialEq)]
struct ControlGroup {
    path: String,
    runtime: i64,
    period: i64,
}

fn group() -> Option<ControlGroup> {
    let own = path_of(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
    let folder = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        .into_iter()
        .map(|root| PathBuf::from(format!("{root}{own}")))
        .find(|folder| folder.join("cpu.rt_runtime_us").exists())?;
    let value = |file: &str| value(folder.join(file).to_str()?);
    Some(ControlGroup {
        path: own,
        runtime: value("cpu.rt_runtime_us")?,
        period: value("cpu.rt_period_us").unwrap_or(1_000_000),
    })
}

/// The group of the controller `cpu` in lines "7:cpu,cpuacct:/path" (cgroups(7)).
fn path_of(groups: &str) -> Option<String> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == "cpu").then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_permits_nice_values_down_to_twenty_less_it() {
        assert_eq!([0, 1, 20, 40, 99].map(|limit| nice_of(Some(limit))), [19, 19, 0, -20, -20]);
        assert_eq!(nice_of(None), HIGHEST, "no limit");
    }

    #[test]
    fn the_group_of_the_cpu_controller_is_found() {
        let groups = "9:name=systemd:/\n3:cpuset:/a\n1:cpu,cpuacct:/b:c\n0::/\n";
        assert_eq!(path_of(groups).as_deref(), Some("/b:c"));
        assert_eq!(path_of("0::/user.slice\n"), None, "version 2 has no budget of its own");
        assert_eq!(path_of("x\n"), None);
    }

    #[test]
    fn the_share_of_real_time_is_a_share() {
        assert!((0.0..=1.0).contains(&realtime_share()));
    }
}
