//! The page of one run.

use maud::{Markup, PreEscaped, html};

use super::page::page;
use super::parts::{cells, filter, galleries, heads, scroll, told};
use super::yaml::yaml;
use crate::columns::{Column, FLOW, SESSION, brief};
use crate::figures::{self, received_over_time};
use crate::format::Rendering;
use crate::human;
use crate::model::{ChangeOrigin, FlowReport, Json, MixReport, Report, SessionReport, Verdict};
use crate::pictures::scale::Unit;
use crate::pictures::series::small;
use crate::text;
use crate::verdict;

/// Bytes of a scenario that a page has; longer ones are in the JSON form.
const SCENARIO: usize = 1 << 20;
/// Lines of a scenario that is shown without being asked for.
const OPEN: usize = 60;
/// Flows whose table stands before the pictures.
const FEW: usize = 12;
/// Changes, outages and files that have a row.
const ROWS: usize = 200;

/// Writes a report.
pub(crate) fn report(report: &Report, rendering: Rendering) -> String {
    let title = format!("Wirebeat report, {}", report.started);
    let main = html! {
        (head(report))
        (expectations(report))
        (findings(report))
        (keys(report))
        (sessions(report))
        @if report.flows.len() <= FEW { (flows(report)) }
        (trends(report))
        (galleries(&figures::of(report)))
        @if report.flows.len() > FEW { (flows(report)) }
        (events(report))
        (environment(report))
        (again(report))
        (all(report, rendering))
        footer { "Made by wirebeat " (told(&report.wirebeat_version)) "; report schema " (told(&report.schema_version)) "." }
    };
    page(&title, &main)
}

fn head(report: &Report) -> Markup {
    let good = report.verdict == Verdict::Done;
    let length = human::time(report.duration_ns as f64);
    html! {
        h1 { "Wirebeat report" }
        p.dim { (told(&report.started)) ", " (length) ", " (told(&human::end(&report.end))) }
        div.verdict.bad[!good] {
            span.mark aria-hidden="true" { @if good { "✓" } @else { "✗" } }
            (verdict::sentence(report))
            @if !report.findings.is_empty() {
                small { (human::counted(report.findings.len() as u64, "finding")) " on what limited the run or makes its numbers less certain" }
            }
        }
    }
}

fn expectations(report: &Report) -> Markup {
    let mut all: Vec<_> = report.expectations().collect();
    all.sort_by_key(|one| one.expectation.met);
    let table = html! {
        table {
            thead { tr { th scope="col" { "outcome" } th scope="col" { "of" } th scope="col" { "expected" } th scope="col" { "found" } } }
            tbody {
                @for one in &all {
                    tr {
                        // first, so that a phone shows it
                        td.good[one.expectation.met].bad[!one.expectation.met] {
                            @if one.expectation.met { "✓ " } @else { "✗ " }
                            (one.expectation.outcome())
                        }
                        th scope="row" { (told(one.whom())) }
                        td.wrap { (told(&one.expectation.text)) }
                        td.wrap { (told(&one.expectation.found())) }
                    }
                }
            }
        }
    };
    html! { @if !all.is_empty() { section { h2 { "Expectations" } (scroll("expectations", &table)) } } }
}

fn findings(report: &Report) -> Markup {
    html! {
        @if !report.findings.is_empty() {
            section {
                h2 { "Findings" }
                p.dim { "What limited the run or makes its numbers less certain; the most serious first." }
                ul.findings { @for finding in &report.findings { li { (told(&finding.message)) } } }
            }
        }
    }
}

/// How measures changed in the course of the run.
fn trends(report: &Report) -> Markup {
    let table = html! {
        table {
            thead { tr { @for (place, head) in text::TREND_HEADS.iter().enumerate() { th.n[place > 1] scope="col" { (head) } } } }
            tbody { @for trend in &report.trends {
                tr { @for (place, cell) in text::trend_cells(trend).iter().enumerate() {
                    @if place == 0 { th scope="row" { (told(cell)) } } @else { td.n[place > 1] { (told(cell)) } }
                } }
            } }
        }
    };
    html! { @if !report.trends.is_empty() { section { h2 { "In the course of the run" } (scroll("in the course of the run", &table)) } } }
}

/// The numbers of all flows together, large.
fn keys(report: &Report) -> Markup {
    let total = brief(FLOW, &[&report.total]);
    html! {
        @if !report.flows.is_empty() {
            section {
                h2 { "All flows" }
                dl.keys {
                    @for column in total { div { dt { (column.title) } dd { (column.show(&report.total)) } } }
                }
            }
        }
    }
}

fn flows(report: &Report) -> Markup {
    let rows: Vec<&FlowReport> = report.flows.iter().collect();
    let columns = brief(FLOW, &rows);
    let over_time = received_over_time(report);
    let table = html! {
        table #flows data-sorts {
            thead {
                tr {
                    th scope="col" { "flow" }
                    @if !over_time.is_empty() { th scope="col" data-fixed { "over time" } }
                    (heads(&columns))
                }
            }
            tbody {
                @for flow in &rows {
                    tr {
                        th scope="row" { (told(&flow.name)) }
                        @if !over_time.is_empty() {
                            td {
                                @if let Some(line) = over_time.get(flow.name.as_str()) {
                                    (PreEscaped(small(line, Unit::FrameRate)))
                                }
                            }
                        }
                        (cells(&columns, flow))
                    }
                }
            }
            @if rows.len() > 1 {
                tfoot {
                    tr {
                        th scope="row" { "total" }
                        @if !over_time.is_empty() { td { } }
                        (cells(&columns, &report.total))
                    }
                }
            }
        }
    };
    let unmeasured: Vec<&FlowReport> =
        report.flows.iter().filter(|flow| flow.not_measured.is_some()).take(ROWS).collect();
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Flows" }
                (filter("flows", rows.len()))
                (scroll("flows", &table))
                @if over_time.is_empty() && !report.intervals.is_empty() && rows.len() > 1 {
                    p.hint { "Intervals of so many flows are not kept by flow." }
                }
                @for flow in unmeasured {
                    p.hint { (told(&flow.name)) ": not measured: " (told(flow.not_measured.as_deref().unwrap_or_default())) }
                }
            }
        }
    }
}

fn sessions(report: &Report) -> Markup {
    let rows: Vec<&SessionReport> = report.session_totals.iter().chain(&report.sessions).collect();
    let columns: Vec<&Column<SessionReport>> = brief(SESSION, &rows);
    let table = html! {
        table #groups data-sorts {
            thead {
                tr {
                    th scope="col" { "group" } th scope="col" { "end" } th scope="col" { "program" } th scope="col" { "stack" }
                    (heads(&columns))
                }
            }
            tbody {
                @for group in &rows {
                    tr {
                        th scope="row" { (told(&group.name)) }
                        td { (group.end.name()) }
                        td { (told(&group.program)) }
                        td { (told(&group.stack)) }
                        (cells(&columns, group))
                    }
                }
            }
        }
    };
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Sessions" }
                (filter("groups", rows.len()))
                (scroll("sessions", &table))
                p.hint { "Times are from the planned beginning: a user would have waited so long." }
                @if let Some(mix) = &report.mix { (shares(mix)) }
            }
        }
    }
}

/// What each group had of the rate that they shared.
fn shares(mix: &MixReport) -> Markup {
    let (what, head) = text::mix::words(mix.of);
    let percent = |ratio: Option<f64>| ratio.map_or_else(String::new, human::percent);
    let table = html! {
        table #mix data-sorts {
            thead {
                tr {
                    th scope="col" { "group" } th.n scope="col" { "asked" } th.n scope="col" { "had" } th.n scope="col" { (head) }
                }
            }
            tbody {
                @for group in &mix.groups {
                    tr {
                        th scope="row" { (told(&group.name)) }
                        td.n data-v=(group.asked_ratio) { (percent(Some(group.asked_ratio))) }
                        td.n data-v=[group.got_ratio] { (percent(group.got_ratio)) }
                        td.n data-v=[group.got] { (group.got.map_or_else(String::new, human::count)) }
                    }
                }
            }
        }
    };
    html! {
        h3 { "Shares of " (told(&mix.rate)) }
        (scroll("shares", &table))
        p.hint {
            "Of " (what) "."
            @if let Some(average) = text::mix::average(mix) { " Sessions of all groups that were started in a second had " (average) "." }
        }
    }
}

/// What changed, which links were down, what was kept in files.
fn events(report: &Report) -> Markup {
    let at = |ns: u64| human::time(ns as f64);
    html! {
        @if !report.changes.is_empty() || !report.outages.is_empty() || !report.captures.is_empty() {
            section {
                h2 { "Events and files" }
                ul {
                    @for change in report.changes.iter().take(ROWS) {
                        li {
                            (at(change.at_ns)) ", " (told(&change.flow)) ": " (told(&change.change))
                            @match change.origin { ChangeOrigin::Scenario => " (planned)", ChangeOrigin::Control => " (by ctl or key)" }
                        }
                    }
                    @if report.changes.len() > ROWS { li { "… " (human::count((report.changes.len() - ROWS) as u64)) " more changes" } }
                    @for outage in report.outages.iter().take(ROWS) {
                        li { (at(outage.at_ns)) ": link of " (told(&outage.interface)) " down for " (at(outage.lasted_ns)) }
                    }
                    @for capture in report.captures.iter().take(ROWS) { li { (told(&text::capture(capture))) } }
                }
            }
        }
    }
}

fn environment(report: &Report) -> Markup {
    let checks = text::checks(report);
    html! {
        section {
            h2 { "Environment" }
            dl.facts {
                @for (label, lines) in text::environment(report) {
                    dt { (label) }
                    dd { @for line in lines { div { (line) } } }
                }
            }
            @if !checks.is_empty() {
                h3 { "Consistency checks" }
                ul.findings {
                    @for (check, balances) in checks {
                        li.bad[!balances] { @if balances { "✓ " } @else { "✗ " } (check) }
                    }
                }
            }
        }
    }
}

/// The command line and the scenario.
fn again(report: &Report) -> Markup {
    let scenario = report.scenario.as_ref().and_then(yaml_of);
    html! {
        section {
            h2 { "Run it again" }
            @if !report.command_line.is_empty() {
                p.dim { "The command, as it was given:" }
                pre.shell { (text::command(report)) }
            }
            @match scenario {
                Some(yaml) => {
                    p.dim {
                        "The scenario, with its defaults and with what was chosen where nothing was written"
                        @if let Some(seed) = report.seed { " (seed " (seed) ")" }
                        ". Save it as scenario.yaml and give it to:"
                    }
                    pre.shell { "wirebeat run scenario.yaml" }
                    @if yaml.len() > SCENARIO {
                        p { "It is longer than this page; the report's JSON has it as 'scenario'." }
                    } @else {
                        details open[yaml.lines().count() <= OPEN] {
                            summary { "Scenario, " (human::counted(yaml.lines().count() as u64, "line")) }
                            pre { (yaml) }
                        }
                    }
                },
                None => @if let Some(seed) = report.seed { p.dim { "Seed " (seed) } },
            }
        }
    }
}

/// A scenario as YAML; nothing where it cannot be written so.
pub(crate) fn yaml_of(scenario: &Json) -> Option<String> {
    yaml(scenario).map(|text| wirebeat_units::printable::printable_lines(&text).into_owned())
}

/// The text form, which has what has no place of its own here.
fn all(report: &Report, rendering: Rendering) -> Markup {
    let rendering = Rendering { details: true, colour: crate::format::Colour::Never, ..rendering };
    html! {
        section {
            h2 { "Every measurement" }
            details {
                summary { "As text" }
                pre { (wirebeat_units::printable::printable_lines(&text::report(report, rendering))) }
            }
        }
    }
}
