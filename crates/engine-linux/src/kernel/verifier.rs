//! What the kernel's verifier said of a program that it refused.
//!
//! libbpf loads a refused program once more with the log on, and prints that as a warning. It is kept here, by
//! thread, from [`listen`] on, and belongs to the last refusal. It knows neither programs nor engines.

use std::cell::RefCell;

/// What libbpf writes before and behind the log (libbpf.c, `fixup_verifier_log` and its caller).
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";
/// The most that is kept, in bytes: the end, where the reason stands.
const KEPT: usize = 1 << 20;
/// Lines of a log that go into a message.
const LINES: usize = 3;

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Forgets what was said, and keeps what libbpf says on this thread instead of letting it write to standard error.
pub(crate) fn listen() {
    fn keep(_level: libbpf_rs::PrintLevel, message: String) {
        SAID.with_borrow_mut(|said| {
            said.push_str(&message);
            if said.len() > 2 * KEPT {
                // a log is ASCII, but for a name that the source may hold
                let from = said.len() - KEPT;
                let cut = (from..said.len()).find(|&at| said.is_char_boundary(at));
                said.drain(..cut.unwrap_or(from));
            }
        });
    }
    SAID.take();
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Warn, keep)));
}

/// The log of the last program that was refused on this thread since `listen`, if there is one.
pub fn log() -> Option<String> {
    SAID.with_borrow(|said| between(said))
}

fn between(said: &str) -> Option<String> {
    let (before, _) = said.rsplit_once(END)?;
    let log = before.rsplit_once(BEGIN).map_or(before, |(_, log)| log);
    Some(log.trim_matches('\n').to_owned())
}

/// The reason in a log: its last lines, without the statistics and the source lines between them.
pub(super) fn reason(log: &str) -> String {
    const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];
    let says = |line: &&str| {
        !line.is_empty()
            && !line.starts_with(';')
            && !STATISTICS.iter().any(|statistics| line.starts_with(statistics))
    };
    let lines: Vec<&str> = log.lines().map(str::trim).filter(says).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    // an instruction is followed by what is known of each register, which may fill a page
    let short: Vec<&str> =
        last.iter().map(|line| line.split("  ;").next().unwrap_or(line).trim()).collect();
    short.join(" | ")
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use libbpf_rs::skel::{OpenSkel, SkelBuilder};

    use super::*;
    use crate::kernel::load::system;
    use crate::kernel::probe::refusal;
    use crate::kernel::skeletons::transmit::TransmitSkelBuilder;

    /// As libbpf 1.7 prints it, on Linux 6.1.
    const SAID: &str = "libbpf: prog 'wb_transmit': BPF program load failed: -EACCES\n\
        libbpf: prog 'wb_transmit': -- BEGIN PROG LOAD LOG --\n\
        ; if (bpf_xdp_store_bytes(ctx, at, memory + from, part))\n\
        834: (bc) w4 = w7                     ; R4_w=scalar(umax=4096,var_off=(0x0; 0x1fff))\n\
        835: (85) call bpf_xdp_store_bytes#190\n\
        invalid access to map value, value_size=69632 off=0 size=0\n\
        R3 min value is outside of the allowed memory range\n\
        processed 334 insns (limit 1000000) max_states_per_insn 0 total_states 19 peak_states 19 mark_read 8\n\
        -- END PROG LOAD LOG --\n\
        libbpf: prog 'wb_transmit': failed to load: -EACCES\n";

    #[test]
    fn the_reason_of_a_refusal_is_at_the_end_of_the_log() {
        let log = between(SAID).unwrap();
        assert!(log.starts_with("; if (bpf_xdp_store_bytes"), "{log}");
        assert!(log.ends_with("mark_read 8"), "{log}");
        assert_eq!(
            reason(&log),
            "835: (85) call bpf_xdp_store_bytes#190 | invalid access to map value, value_size=69632 off=0 size=0 | R3 \
             min value is outside of the allowed memory range"
        );
        assert_eq!(reason("834: (bc) w4 = w7      ; R4_w=scalar()"), "834: (bc) w4 = w7");
        assert_eq!(reason(""), "");
    }

    #[test]
    fn a_program_that_is_refused_says_what_its_verifier_said_and_what_to_do() {
        wirebeat_testbed::require!(wirebeat_testbed::Capability::Bpf);
        listen();
        let mut storage = MaybeUninit::uninit();
        let mut open = TransmitSkelBuilder::default().open(&mut storage).unwrap();
        // more than the map holds: a part of a frame could lie beyond it
        let settings = open.maps.rodata_data.as_deref_mut().unwrap();
        settings.shared_len = 1 << 20;
        settings.frame_max = 1514;
        let error = open.load().map(drop).unwrap_err();
        let log = log().unwrap();
        assert!(log.contains("bpf_xdp_store_bytes"), "{log}");
        for message in [
            system("loading the transmit program", "eth1", error).to_string(),
            refusal("the transmit program", &libbpf_rs::Error::from_raw_os_error(22)).to_string(),
        ] {
            assert!(message.contains("R3 "), "{message}");
            assert!(message.contains("; use the engine 'packet' or 'socket' here"), "{message}");
            assert!(message.contains("doctor --verbose"), "{message}");
            assert!(message.len() < 1000, "{message}");
        }
    }

    #[test]
    fn without_a_log_there_is_none() {
        assert_eq!(between("libbpf: map 'slots': failed to create: -EPERM\n"), None);
        listen();
        assert_eq!(log(), None);
    }
}
