//! What stands above the chapters of every study: when, where, how long, and how to repeat it.

use std::time::{Duration, Instant, SystemTime};

use wirebeat_host::Machine;
use wirebeat_report::study::{Chapter, Study};
use wirebeat_report::time::rfc3339;
use wirebeat_units::human::counted;

use crate::document;
use crate::rounds::Bench;

/// What is known before the first measurement.
#[derive(Clone, Debug)]
pub struct Heading {
    begun: Instant,
    started: String,
    load: Option<f64>,
    command: String,
    source: &'static str,
}

impl Heading {
    /// Of a run that begins now. `source` is the study that is repeated.
    pub fn now(command: String, source: &'static str) -> Heading {
        let started = rfc3339(SystemTime::now());
        Heading { begun: Instant::now(), started, load: document::load_average(), command, source }
    }

    /// The study of these chapters.
    pub fn study(
        &self,
        bench: &Bench,
        title: &str,
        summary: Vec<String>,
        chapters: Vec<Chapter>,
    ) -> Study {
        let elapsed = self.begun.elapsed();
        Study {
            title: title.to_owned(),
            when: format!("{}; measuring took {}", self.started, minutes(elapsed)),
            summary,
            facts: self.facts(bench),
            commands: vec![self.command.clone()],
            chapters,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn facts(&self, bench: &Bench) -> Vec<(String, String)> {
        let machine = Machine::observe();
        let unknown = || "unknown".to_owned();
        let cpus = machine.cpu.online.as_ref().map(|online| online.cpus().len());
        let busy = match (self.load, cpus) {
            (Some(load), _) if load < 0.5 => format!("load average {load:.2}: nobody else worked"),
            (Some(load), _) => format!(
                "load average {load:.2}: other programs worked as well, and what they took is in these figures"
            ),
            _ => unknown(),
        };
        let facts = [
            ("Repeats", self.source.to_owned()),
            (
                "Measurements",
                format!(
                    "{} of {:.1} s each",
                    counted(bench.rounds as u64, "round"),
                    bench.time.as_secs_f64()
                ),
            ),
            ("Kernel", machine.kernel.release.map_or_else(unknown, |of| format!("Linux {of}"))),
            ("Processor", machine.cpu.model.unwrap_or_else(unknown)),
            ("CPUs", cpus.map_or_else(unknown, |cpus| cpus.to_string())),
            (
                "Runs on",
                machine.cpu.hypervisor.map_or_else(
                    || "real hardware".to_owned(),
                    |of| format!("a virtual machine ({of})"),
                ),
            ),
            ("Before it", busy),
        ];
        facts.into_iter().map(|(name, is)| (name.to_owned(), is)).collect()
    }
}

fn minutes(time: Duration) -> String {
    format!("{} min {} s", time.as_secs() / 60, time.as_secs() % 60)
}
