//! What senders lack: nothing, CPU time, memory, or room in the send buffer. A condition holds from its start until it is dropped.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt};
use wirebeat_testbed::{Capability, Process, Program, require};

use super::restorer::{Restorer, Setting};
use crate::lab::{Failure, Lab};

/// What senders lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    Ideal,
    /// CPU time: workers want all of it.
    Cpu,
    /// Memory: workers of the same group ask for twice what it may have.
    Memory,
    /// Room in the send buffer.
    Buffer,
}

/// Workers that want a CPU all the time (the study: `stress -c 8`).
pub const CPU_WORKERS: u64 = 8;
/// Workers that want memory, and what their group may have; together they ask for twice as much.
pub const MEMORY_WORKERS: u64 = 4;
const GROUP_BYTES: u64 = 256 << 20;
/// Bytes of a send buffer in the study. A kernel that does not take them gets the next of these.
pub const SEND_BUFFER: u64 = 1_000;
const SEND_BUFFERS: [u64; 5] = [SEND_BUFFER, 2_048, 2_304, 4_608, 8_192];
/// From the start of workers until all of them work; those that want memory have to get it first.
const WORKS: Duration = Duration::from_millis(500);
const FILLS: Duration = Duration::from_secs(3);
/// Longer than any chapter; workers end with the condition.
const LONG_S: &str = "7200";

const SETTINGS: [&str; 2] = ["/proc/sys/net/core/wmem_default", "/proc/sys/net/core/wmem_max"];

/// A condition that holds.
#[derive(Debug, Default)]
pub struct Holding {
    /// What a command is started with, so that it is part of it.
    pub around: Vec<String>,
    /// What was done, in sentences.
    pub said: Vec<String>,
    // fields are dropped in this order: workers end before their group is removed
    _workers: Option<Process>,
    _settings: Vec<Setting>,
    _group: Option<Restorer>,
}

impl Condition {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Ideal => "ideal",
            Condition::Cpu => "CPU stressed",
            Condition::Memory => "memory stressed",
            Condition::Buffer => "small send buffer",
        }
    }

    /// Brings it about.
    pub fn hold(self, lab: &Lab) -> Result<Holding, Failure> {
        match self {
            Condition::Ideal => Ok(Holding::default()),
            Condition::Cpu => cpu(lab),
            Condition::Memory => memory(lab),
            Condition::Buffer => buffer(lab),
        }
    }
}

fn cpu(lab: &Lab) -> Result<Holding, Failure> {
    let workers = CPU_WORKERS.to_string();
    let arguments = ["-c", &workers, "--cpu-method", "sqrt", "--timeout", LONG_S];
    let workers = stress(lab, &[], &arguments)?;
    sleep(WORKS);
    let said = vec![format!(
        "stress-ng keeps {CPU_WORKERS} workers busy that calculate square roots, on the same CPUs, for the whole chapter."
    )];
    Ok(Holding { said, _workers: Some(workers), ..Holding::default() })
}

fn stress(lab: &Lab, around: &[String], arguments: &[&str]) -> Result<Process, Failure> {
    require(Capability::Program("stress-ng"))?;
    let mut command: Vec<&str> = around.iter().map(String::as_str).collect();
    command.push("stress-ng");
    command.extend(arguments);
    let (program, arguments) = command.split_first().ok_or("there is no program")?;
    Ok(Program::new(&lab.near().namespace, program).args(arguments).spawn()?)
}

/// A group with a limit of memory: its folder, what limits it, and what removes it.
struct Group {
    folder: PathBuf,
    limited_by: &'static str,
    restorer: Restorer,
}

/// Makes a group in the hierarchy of cgroup v2, or of v1 where that has the memory.
fn group(swap: bool) -> Result<Group, Failure> {
    const V2: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let has_memory = |root: &&&str| {
        let controllers = fs::read_to_string(Path::new(root).join("cgroup.subtree_control"));
        controllers.is_ok_and(|all| all.split_ascii_whitespace().any(|one| one == "memory"))
    };
    let (root, limited_by) = match V2.iter().find(has_memory) {
        // without swap, a hard limit would end in the OOM killer
        Some(root) => (*root, if swap { "memory.max" } else { "memory.high" }),
        None => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    };
    let folder = Path::new(root).join(format!("wirebeat-bench-{}", process::id()));
    fs::create_dir(&folder)?;
    let shown = folder.display();
    let remove = format!("for _ in 1 2 3 4 5 6 7 8 9; do rmdir {shown} && break; sleep 1; done");
    let restorer = Restorer::new(&remove)?;
    fs::write(folder.join(limited_by), GROUP_BYTES.to_string())?;
    Ok(Group { folder, limited_by, restorer })
}

fn memory(lab: &Lab) -> Result<Holding, Failure> {
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swap = swaps.lines().count() > 1;
    let Group { folder, limited_by, restorer } = group(swap)?;
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", folder.display());
    let around = vec!["sh".to_owned(), "-c".to_owned(), enter, "sh".to_owned()];
    let (each, workers) =
        ((2 * GROUP_BYTES / MEMORY_WORKERS).to_string(), MEMORY_WORKERS.to_string());
    let files = lab.folder.file("");
    let files = files.display().to_string();
    // without swap only what belongs to files can leave memory, and is read again
    let arguments: Vec<&str> = match swap {
        true => vec!["--vm", &workers, "--vm-bytes", &each, "--timeout", LONG_S],
        false => vec![
            "--mmap",
            &workers,
            "--mmap-bytes",
            &each,
            "--mmap-file",
            "--temp-path",
            &files,
            "--timeout",
            LONG_S,
        ],
    };
    let process = stress(lab, &around, &arguments)?;
    sleep(FILLS);
    let has = (2 * GROUP_BYTES) >> 20;
    let mut said = vec![format!(
        "{MEMORY_WORKERS} workers of stress-ng ask for {has} MiB together, in a memory cgroup that they share with the sender and \
         that may have {} MiB ({limited_by}).",
        GROUP_BYTES >> 20
    )];
    said.push(match swap {
        true => "What does not fit goes to the swap of this machine, as in the study.".to_owned(),
        false => format!(
            "This machine has no swap{}. So the memory of the workers belongs to files: what does not fit is written to the disk and \
             read again, as with swap; a tool's own data, which has no file, stays in memory. A study of swapped senders is not \
             reproduced.",
            if limited_by == "memory.high" { "" } else { ", and its cgroups (version 1) have no memory.high" }
        ),
    });
    Ok(Holding {
        around,
        said,
        _workers: Some(process),
        _settings: Vec::new(),
        _group: Some(restorer),
    })
}

fn buffer(lab: &Lab) -> Result<Holding, Failure> {
    let mut settings = Vec::new();
    let mut taken = Vec::new();
    for path in SETTINGS {
        let (setting, value) = Setting::set(path, SEND_BUFFERS)?;
        settings.push(setting);
        taken.push(format!("{} = {value}", path.trim_start_matches("/proc/sys/net/core/")));
    }
    let effective = effective_buffer(lab)?;
    let said = vec![format!(
        "The study set both settings to {SEND_BUFFER} bytes. This kernel takes no less than {}; the socket of a program has then \
         {effective} bytes (SO_SNDBUF), in which the kernel counts its own administration of each packet as well. It is a setting of \
         the whole machine and was put back after the chapter.",
        taken.join(" and ")
    )];
    Ok(Holding { said, _settings: settings, ..Holding::default() })
}

/// The send buffer of a new socket, as the kernel says it.
fn effective_buffer(lab: &Lab) -> Result<usize, Failure> {
    let socket = lab.near().namespace.run(|| UdpSocket::bind("0.0.0.0:0"))??;
    Ok(getsockopt(&socket, sockopt::SndBuf)?)
}
