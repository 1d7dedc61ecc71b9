//! Whether this kernel can run the engine at all, found by doing it: both programs are loaded, and the
//! transmit program makes one live test run that sends nothing.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use wirebeat_units::{Fault, fault};

use super::skeletons::receive::ReceiveSkelBuilder;
use super::skeletons::transmit::TransmitSkelBuilder;
use super::test_run::{self, Call};
use super::verifier;

/// Loads the programs and makes a test run with no frame to send. `Err` says what is missing and what
/// would mend it. Touches no interface; takes some milliseconds.
pub fn probe() -> Result<(), Fault> {
    verifier::listen();
    one_clock()?;
    let mut storage = MaybeUninit::uninit();
    let transmit = TransmitSkelBuilder::default()
        .open(&mut storage)
        .and_then(|open| open.load())
        .map_err(|error| refusal("the transmit program", &error))?;
    let mut storage = MaybeUninit::uninit();
    ReceiveSkelBuilder::default()
        .open(&mut storage)
        .and_then(|open| open.load())
        .map_err(|error| refusal("the receiving program", &error))?;
    // the ring is empty: the program finds nothing due and drops the page it was given
    let call = Call { frame: &[0; 60], repeat: 1, batch: 1 };
    test_run::run(transmit.progs.wb_transmit.as_fd(), call).map_err(|error| {
        fault!(
            "this kernel does not run XDP programs with live frames ({error})";
            "it needs Linux 5.18 or newer"
        )
    })
}

/// The transmit program keeps to launch times of this process: both have to read one clock.
pub(super) fn one_clock() -> Result<(), Fault> {
    match super::clock::ahead_of_kernel() {
        Ok(0) => Ok(()),
        Ok(ahead) => Err(fault!(
            "this process is in a time namespace whose monotonic clock differs from the \
             kernel's by {} s, and the transmit program reads the kernel's",
            ahead as f64 / 1e9;
            "start wirebeat outside of it, or use the engine 'packet'"
        )),
        Err(error) => Err(error.fault()),
    }
}

/// Why a program was not loaded.
pub(super) fn refusal(what: &str, error: &libbpf_rs::Error) -> Fault {
    if let Some(log) = verifier::log() {
        return refused_by_verifier(error, &log).at(format!("the kernel refused {what}"));
    }
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            fault!(
                "loading eBPF programs is not permitted: it needs CAP_BPF and CAP_NET_ADMIN";
                "run as root"
            )
        }
        _ => {
            fault!(
                "the kernel refused {what} ({error:#})";
                "it needs Linux 5.18 or newer with CONFIG_BPF_SYSCALL"
            )
        }
    }
}

/// What the verifier found, and what to do.
pub(super) fn refused_by_verifier(error: &libbpf_rs::Error, log: &str) -> Fault {
    fault!(
        "its verifier says '{}' ({error})", verifier::reason(log);
        "use the engine 'packet' or 'socket' here, and report this with the output of 'wirebeat \
         doctor --verbose', which has the whole log"
    )
}
