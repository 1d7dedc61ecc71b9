//! How much memory a process can still get.

use crate::files;

/// Bytes of memory that can be had without swapping: what the machine has available, or what is left to the control group of this
/// process where that is less. `None` where the system does not say.
pub fn available() -> Option<u64> {
    let machine = files::text("/proc/meminfo").and_then(|text| kilobytes(&text, "MemAvailable:"));
    [machine, of_group(), of_old_group(), of_process()].into_iter().flatten().min()
}

/// What the limit of the address space (`ulimit -v`) leaves this process.
fn of_process() -> Option<u64> {
    let limits = files::text("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // soft limit, hard limit, unit; "unlimited" is no number
    let most = line.split_whitespace().next()?.parse::<u64>().ok()?;
    let used = files::text("/proc/self/status").and_then(|text| kilobytes(&text, "VmSize:"))?;
    Some(most.saturating_sub(used))
}

/// What the control group leaves it where memory is counted by version 1, whose lines name the controller.
fn of_old_group() -> Option<u64> {
    let text = files::text("/proc/self/cgroup")?;
    let path = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == "memory").then_some(path)
    })?;
    let folder = std::path::Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'));
    let most: u64 = files::value(folder.join("memory.limit_in_bytes"))?;
    let used: u64 = files::value(folder.join("memory.usage_in_bytes"))?;
    Some(most.saturating_sub(used))
}

/// The bytes of a line of `/proc/meminfo`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the control groups of this process leave it (cgroup v2, which has one line here that begins with `0::`).
fn of_group() -> Option<u64> {
    let text = files::text("/proc/self/cgroup")?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut least = None;
    let mut folder = std::path::Path::new("/sys/fs/cgroup").join(path);
    // each group above limits too; a path from a file is followed no further up than where groups begin
    while folder.starts_with("/sys/fs/cgroup") {
        let most: Option<u64> = files::value(folder.join("memory.max"));
        let used: Option<u64> = files::value(folder.join("memory.current"));
        let left = most.zip(used).map(|(most, used)| most.saturating_sub(used));
        least = [least, left].into_iter().flatten().min();
        if !folder.pop() {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let text = "MemTotal:       24637400 kB\nMemAvailable:   15123456 kB\n";
        assert_eq!(kilobytes(text, "MemAvailable:"), Some(15_123_456 << 10));
        assert_eq!(kilobytes(text, "SwapFree:"), None);
        assert_eq!(kilobytes("MemAvailable: many", "MemAvailable:"), None);
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }
}
