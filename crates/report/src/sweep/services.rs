//! Runs that are a test of services (ITU-T Y.1564): what each service was promised, a row for each service of each run, and the criteria
//! with what was measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Sweep, Table, outcome};
use crate::columns::{FLOW, brief};
use crate::human;
use crate::model::{Expectation, FlowReport, LengthRange, Report};
use crate::verdict;

/// The place of the service among the values of a run.
const SERVICE: usize = 1;

/// A test of services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceTest {
    /// What the result is headed with, as the name of the network; absent where nothing was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The services.
    pub services: Vec<Service>,
    /// How long each step of the configuration test takes.
    pub step_ns: u64,
    /// How long the performance test takes; `null` where there is none.
    pub performance_ns: Option<u64>,
    /// In what the test is not what the standard describes.
    pub deviations: Vec<String>,
}

/// What a service was promised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Its name: that of its flow.
    pub name: String,
    /// The committed information rate, as it was written.
    pub committed: String,
    /// The excess information rate, as it was written; `null` where there is none.
    pub excess: Option<String>,
    /// Its service acceptance criteria, as they were written.
    pub criteria: Vec<String>,
}

/// The tables of a test of services.
pub(super) fn tables(sweep: &Sweep, test: &ServiceTest) -> Vec<Table> {
    vec![promised(sweep, test), steps(sweep)]
}

/// Each criterion of each service in each run, with what was measured.
pub(super) fn criteria(sweep: &Sweep) -> Table {
    let mut rows = Vec::new();
    for (values, report) in runs(sweep) {
        for flow in &report.flows {
            for one in &flow.expectations {
                let mut row = of_service(values, &flow.name);
                row.extend([one.text.clone(), one.found(), one.outcome().to_owned()]);
                rows.push(row);
            }
        }
    }
    let mut heads = sweep.variables.clone();
    heads.extend(["criterion", "found", "outcome"].map(str::to_owned));
    let variables = heads.len();
    Table {
        title: "acceptance criteria".to_owned(),
        variables,
        names: 0,
        heads,
        rows,
        notes: Vec::new(),
    }
}

/// How long its parts take, in words.
pub(super) fn durations(test: &ServiceTest) -> String {
    let steps = format!("steps of {}", human::long_time(test.step_ns));
    match test.performance_ns {
        Some(ns) => format!("{steps}, performance test of {}", human::long_time(ns)),
        None => format!("{steps}, no performance test"),
    }
}

fn runs(sweep: &Sweep) -> impl Iterator<Item = (&Vec<String>, &Report)> {
    sweep.points.iter().map(|point| (&point.values, &point.report))
}

/// The values of a run, of one of its services.
fn of_service(values: &[String], name: &str) -> Vec<String> {
    let mut values = values.to_vec();
    if let Some(service) = values.get_mut(SERVICE) {
        name.clone_into(service);
    }
    values
}

fn promised(sweep: &Sweep, test: &ServiceTest) -> Table {
    let size = |name: &str| {
        let mut flows = runs(sweep).flat_map(|(_, report)| &report.flows);
        let sizes = flows.find(|flow| flow.name == name).and_then(|flow| flow.sizes);
        sizes.map_or_else(|| "-".to_owned(), |sizes| bytes(sizes.frame_bytes))
    };
    let row = |of: &Service| {
        let excess = of.excess.clone().unwrap_or_else(|| "-".to_owned());
        vec![of.name.clone(), of.committed.clone(), excess, size(&of.name), of.criteria.join(", ")]
    };
    let heads = ["service", "CIR", "EIR", "frame", "criteria"].map(str::to_owned).to_vec();
    let rows = test.services.iter().map(row).collect();
    Table { title: "services".to_owned(), variables: 1, names: 1, heads, rows, notes: Vec::new() }
}

/// How long frames are.
fn bytes(of: LengthRange) -> String {
    match (of.min == of.max, of.mean) {
        (true, _) => format!("{} B", of.min),
        (false, Some(mean)) => {
            format!("{} to {} B, {} B on average", of.min, of.max, human::number(mean))
        }
        (false, None) => format!("{} to {} B", of.min, of.max),
    }
}

/// A row for each run, and for each service of a run with several.
fn steps(sweep: &Sweep) -> Table {
    let mut found: Vec<(Vec<String>, String, &FlowReport)> = Vec::new();
    let mut notes = Vec::new();
    for (values, report) in runs(sweep) {
        let all = outcome(&[report]).unwrap_or_else(|| "-".to_owned());
        found.push((values.clone(), all, &report.total));
        if report.flows.len() > 1 {
            found.extend(report.flows.iter().map(|flow| {
                (of_service(values, &flow.name), judged(&flow.expectations).to_owned(), flow)
            }));
        }
        notes.extend(by_rate_alone(values, report));
    }
    let flows: Vec<&FlowReport> = found.iter().map(|(_, _, flow)| *flow).collect();
    let columns = brief(FLOW, &flows);
    let mut heads = sweep.variables.clone();
    heads.push("verdict".to_owned());
    let names = heads.len();
    heads.extend(columns.iter().map(|column| column.title.to_owned()));
    let rows = found.iter().map(|(values, verdict, flow)| {
        let mut row = values.clone();
        row.push(verdict.clone());
        row.extend(columns.iter().map(|column| match column.show(flow) {
            none if none.is_empty() => "-".to_owned(),
            shown => shown,
        }));
        row
    });
    let rows = rows.collect();
    Table { title: "tests".to_owned(), variables: sweep.variables.len(), names, heads, rows, notes }
}

/// The criteria by which a run with an excess rate is judged: losses beyond the committed rate are no failure.
fn by_rate_alone(values: &[String], report: &Report) -> Option<String> {
    let load = values.last().filter(|load| load.starts_with("CIR +"))?;
    let flow = report.flows.first()?;
    let told = flow
        .expectations
        .iter()
        .map(|one| format!("{} by {} ({})", one.outcome(), one.text, one.found()));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("{}, {load}: {}", flow.name, told.join(", ")))
}

/// What criteria come to.
fn judged(criteria: &[Expectation]) -> &'static str {
    let unmet = || criteria.iter().filter(|one| !one.met);
    match criteria {
        [] => "-",
        _ if unmet().next().is_none() => verdict::PASS,
        _ if unmet().all(|one| one.undecided.is_some()) => verdict::UNDECIDED,
        _ => verdict::FAIL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_judged_by_its_own_criteria() {
        let one = |met, undecided: Option<&str>| Expectation {
            met,
            undecided: undecided.map(str::to_owned),
            ..Expectation::default()
        };
        assert_eq!(judged(&[]), "-");
        assert_eq!(judged(&[one(true, None)]), "PASS");
        assert_eq!(judged(&[one(true, None), one(false, Some("too few"))]), "UNDECIDED");
        assert_eq!(judged(&[one(false, None), one(false, Some("too few"))]), "FAIL");
    }
}
