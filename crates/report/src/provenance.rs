//! What stands at the top of the pages of tests and sweeps: when, by which command, from where to where.

use maud::{Markup, html};

use crate::html::told;
use crate::human;
use crate::model::{Report, Station};
use crate::text::command_of;

/// Names and what they are; those that are not known are left out.
pub(crate) type Facts = Vec<(&'static str, String)>;

/// When a test began and how long it took, its command line, and the ports of one of its runs.
pub(crate) fn facts(
    started: &str,
    duration_ns: Option<u64>,
    command_line: &[String],
    of_run: Option<&Report>,
) -> Facts {
    let took = duration_ns.map(|ns| format!(", {}", human::long_time(ns))).unwrap_or_default();
    let mut facts = vec![("date", format!("{started}{took}"))];
    if !command_line.is_empty() {
        facts.push(("command", command_of(command_line)));
    }
    if let Some(report) = of_run {
        for (label, stations) in
            [("sent from", &report.senders), ("received at", &report.receivers)]
        {
            if !stations.is_empty() {
                facts.push((label, stations.iter().map(port).collect::<Vec<_>>().join("; ")));
            }
        }
    }
    facts
}

/// A port in words: its interface, its engine and its host.
fn port(station: &Station) -> String {
    let interface = station.interface.as_deref().unwrap_or("any interface");
    let host = match station.host.name.as_str() {
        "" => String::new(),
        name => format!(", host {name}"),
    };
    format!("{interface} ({} engine{host})", station.engine)
}

/// Facts as a list of a page.
pub(crate) fn list(facts: &[(&'static str, String)]) -> Markup {
    html! { dl.facts { @for (name, fact) in facts { dt { (name) } dd { (told(fact)) } } } }
}
