//! `wirebeat doctor`: which engines work here, and sources of measurement error on this machine.

use std::fmt::Write;

use clap::Args as ClapArgs;
use wirebeat_run::Exit;
use wirebeat_run::doctor::{
    Diagnosis, EngineCheck, Facts, Finding, Interface, Sessions, Usability, diagnose,
};
use wirebeat_units::human;

use crate::failure::Failure;
use crate::output::{Answer, AnswerFiles, Output, ReportArgs};
use crate::selftest::{self, SelfTestArgs};

/// Check this machine: usable engines and sources of measurement error
///
/// Tries each engine and says whether it works here, why not, and what would mend it; how many TCP sessions there can be; then what on this
/// machine makes measurements less exact. Takes a second and sends nothing on any interface. Exit code 3
/// when no engine works. With --selftest it sends on the interface that is named, and on no other.
#[derive(ClapArgs, Debug)]
pub struct Args {
    #[command(flatten)]
    results: AnswerFiles,

    /// Print all that the kernel's verifier says of a program that it refuses
    #[arg(long, short)]
    verbose: bool,

    #[command(flatten)]
    selftest: SelfTestArgs,
}

impl Args {
    /// How the result is wanted.
    pub fn report(&self) -> ReportArgs {
        ReportArgs::from(&self.results.0)
    }
}

/// Looks and says.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    if let Some(request) = args.selftest.request(output) {
        return selftest::run(&request, output);
    }
    let diagnosis = diagnose().map_err(|error| Failure::machine(error.fault()))?;
    let code = if diagnosis.can_send() { Exit::Done } else { Exit::Machine };
    let text = |_| text(&diagnosis, args.verbose);
    Ok(output.result(code.code(), &Answer { document: &diagnosis, text }))
}

/// Writing to a `String` cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {{
        let _ = writeln!($text, $($format)*);
    }};
}

/// For a person.
fn text(diagnosis: &Diagnosis, verbose: bool) -> String {
    let mut text = String::from("Engines\n");
    for engine in &diagnosis.engines {
        write_engine(&mut text, engine);
        if let (true, Usability::Unusable { verifier_log: Some(log), .. }) =
            (verbose, &engine.usability)
        {
            log.lines().for_each(|said| line!(text, "    {said}"));
        }
    }
    text.push_str("\nSessions\n");
    write_sessions(&mut text, &diagnosis.sessions);
    text.push_str("\nWhat makes measurements less exact here\n");
    if diagnosis.findings.is_empty() {
        text.push_str("  nothing that is known\n");
    }
    let width = diagnosis.findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    for finding in &diagnosis.findings {
        write_finding(&mut text, finding, width);
    }
    text.push_str("\nMachine\n");
    write_facts(&mut text, &diagnosis.facts);
    text
}

fn write_engine(text: &mut String, check: &EngineCheck) {
    let engine = check.engine;
    match &check.usability {
        Usability::Usable { how } => line!(text, "  {engine:<8} ready    {how}"),
        Usability::Unusable { why, .. } => {
            line!(text, "  {engine:<8} missing  {}", why.what);
            if let Some(remedy) = &why.hint {
                line!(text, "  {:<17} hint: {remedy}", "");
            }
        }
    }
}

fn write_sessions(text: &mut String, sessions: &Sessions) {
    let all = |what: Option<String>| what.unwrap_or_else(|| "unknown".to_owned());
    let descriptors = sessions.descriptors.map(human::count);
    line!(
        text,
        "  stack host  {} open at a time (file descriptors, ulimit -n)",
        descriptors.unwrap_or_else(|| "any number".to_owned())
    );
    let ports = all(sessions.client_ports.map(human::count));
    line!(text, "  {:<10}  {ports} client ports for each address and server", "");
    if let Some(starts) = sessions.starts_per_second {
        line!(
            text,
            "  {:<10}  {} starts a second on end for each, where the client closes first (TIME-WAIT)",
            "",
            human::count(starts)
        );
    }
    let congestion = all(sessions.congestion.clone());
    line!(
        text,
        "  {:<10}  congestion control {congestion} unless asked for; there are {}; backlog {}",
        "",
        sessions.congestions.join(", "),
        all(sessions.backlog.map(human::count))
    );
    let sctp = match sessions.sctp {
        true => "SCTP can be had",
        false => "no SCTP; load it: modprobe sctp",
    };
    line!(text, "  {:<10}  {sctp}", "");
    match sessions.own_stack.as_slice() {
        [] => line!(
            text,
            "  stack own   in memory alone: no engine with a network that carries it works here"
        ),
        engines => line!(text, "  stack own   over {}", engines.join(", ")),
    }
}

fn write_finding(text: &mut String, finding: &Finding, width: usize) {
    line!(text, "  {:<width$}  {}", finding.about, finding.what);
    if let Some(remedy) = &finding.remedy {
        line!(text, "  {:<width$}  hint: {remedy}", "");
    }
}

fn write_facts(text: &mut String, facts: &Facts) {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
    let (kernel, cpu) = (&facts.machine.kernel, &facts.machine.cpu);
    line!(text, "  kernel    {} ({})", known(&kernel.release), known(&kernel.architecture));
    let online = cpu.online.as_ref().map_or(0, |cpus| cpus.cpus().len());
    line!(text, "  CPU       {} ({online} online)", known(&cpu.model));
    line!(text, "  clock     {}", known(&kernel.clocksource));
    let noise = &facts.noise;
    line!(
        text,
        "  noise     a busy loop of {} was stopped {} times for more than 1 µs, at most {}",
        human::time(noise.elapsed_ns as f64),
        noise.above_1_us,
        human::time(noise.longest_gap_ns as f64)
    );
    facts.interfaces.iter().for_each(|interface| write_interface(text, interface));
}

/// What is known of an interface: some lines.
pub fn write_interface(text: &mut String, interface: &Interface) {
    let driver = interface.driver.as_ref().or(interface.kind.as_ref());
    let speed = interface.speed_bps.map(|speed| format!(", {}", human::bit_rate(speed as f64)));
    let xdp = interface.xdp_features.as_deref().unwrap_or("unknown");
    line!(
        text,
        "  {:<9} {}, {}{}, XDP: {xdp}",
        interface.name,
        driver.map_or("unknown driver", String::as_str),
        interface.state,
        speed.unwrap_or_default(),
    );
    if let Some(settings) = settings(interface) {
        line!(text, "  {:<9} {settings}", "");
    }
    if let Some(af_xdp) = &interface.af_xdp {
        line!(text, "  {:<9} AF_XDP: {af_xdp}", "");
    }
    let stamps = &interface.timestamps;
    if let Some(clock) = &stamps.clock {
        let sent = stamps.hardware_transmit.then_some("sent frames");
        let all: Vec<&str> = sent.into_iter().chain(stamps.hardware_receive.as_deref()).collect();
        let what = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
        line!(text, "  {:<9} its clock {clock} stamps {what}", "");
    }
}

/// What can be set of a card, as far as its driver tells.
fn settings(interface: &Interface) -> Option<String> {
    let ring = |way: &str, now: Option<u32>, most: Option<u32>| {
        let most = most.map_or(String::new(), |most| format!(" of {most}"));
        now.map(|now| format!("{way} ring {now}{most}"))
    };
    let held_back = match (interface.adaptive_coalescing, interface.rx_coalesce_us) {
        (Some(true), _) => Some("receive interrupts held back adaptively".to_owned()),
        (_, Some(0)) => Some("receive interrupts at once".to_owned()),
        (_, Some(us)) => Some(format!("receive interrupts held back up to {us} µs")),
        _ => None,
    };
    let pause = match (interface.pause_heeded, interface.pause_sent) {
        (Some(false), Some(false)) => Some("no pause frames"),
        (Some(true), Some(false)) => Some("pause frames heeded"),
        (Some(false), Some(true)) => Some("pause frames sent"),
        (Some(true), Some(true)) => Some("pause frames heeded and sent"),
        _ => None,
    };
    let all = [
        ring("receive", interface.rx_ring, interface.rx_ring_max),
        ring("transmit", interface.tx_ring, interface.tx_ring_max),
        interface.channels.map(|queues| human::counted(queues.into(), "queue")),
        interface.rss.as_ref().map(|rss| format!("RSS {rss}")),
        held_back,
        pause.map(str::to_owned),
    ];
    let told: Vec<String> = all.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(", "))
}

#[cfg(test)]
mod tests {
    use wirebeat_report::format::{Presentable, Rendering};
    use wirebeat_units::fault;

    use super::*;

    #[test]
    fn every_engine_and_finding_is_shown_with_its_remedy() {
        let mut diagnosis = diagnose().unwrap();
        let usability = Usability::Unusable {
            why: fault!("no rights"; "run as root"),
            verifier_log: Some("0: (b7) r0 = 0\nR1 is wrong".to_owned()),
        };
        diagnosis.engines[0].usability = usability;
        diagnosis.findings = vec![Finding {
            about: "eth1".to_owned(),
            what: "the ring is short".to_owned(),
            remedy: Some("make it longer".to_owned()),
        }];
        let verbose = super::text(&diagnosis, true);
        assert!(
            verbose.contains("hint: run as root\n    0: (b7) r0 = 0\n    R1 is wrong\n"),
            "{verbose}"
        );
        let text = text(&diagnosis, false);
        assert!(!text.contains("R1 is wrong"), "{text}");
        for line in [
            "  kernel   missing  no rights\n                    hint: run as root\n",
            "  eth1  the ring is short\n        hint: make it longer\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let answer = Answer { document: &diagnosis, text: |_| String::new() };
        let json = answer.json(Rendering::default());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["schema_version"], "1");
        assert_eq!(json["findings"][0]["about"], "eth1");
    }
}
