//! The members of a flow: a line for each, those first of which most did not arrive or leave.

use std::cmp::Reverse;

use super::overview::{self, nothing};
use super::style::Style;
use super::table::{Cell, Table};
use crate::human;
use crate::model::{FlowReport, MemberKind, Members};

/// Members that have a line; the rest are in the JSON form.
const LINES: usize = 20;

/// The table of a flow's members.
pub fn members(members: &Members, style: Style) -> String {
    let (one, many) = match members.are {
        MemberKind::Device => ("device", "devices"),
        MemberKind::SubFlow => ("sub-flow", "sub-flows"),
    };
    let mut flows: Vec<&FlowReport> = members.flows.iter().collect();
    let any = flows.iter().any(|flow| missing(flow) > 0);
    flows.sort_by_key(|flow| Reverse(missing(flow)));
    let name = if flows.len() == 1 { one } else { many };
    let mut title = format!("  {} {name}", human::count(flows.len() as u64));
    if any && flows.len() > 1 {
        title += ", those first of which most is missing";
    }
    let heading = [
        one,
        "sent",
        "expired",
        "received",
        "lost",
        "loss",
        "duplicates",
        "rate",
        "Mbit/s",
        "p50",
        "p99",
        "max",
        "p50",
        "p99",
    ];
    let mut table =
        Table::new(&heading).group("one-way delay", 9, 11).group("send lateness", 12, 13);
    for flow in flows.iter().take(LINES) {
        table.row(line(flow));
    }
    let more = match flows.len().saturating_sub(LINES) {
        0 => String::new(),
        more => {
            format!("  … {} more are in the JSON form of this report\n", human::count(more as u64))
        }
    };
    format!("{}\n{}{more}", style.strong(&title), table.without_empty(1).render(2, style))
}

/// The line of a flow in the overview, and what expired of it.
fn line(flow: &FlowReport) -> Vec<Cell> {
    let expired = flow.sent.as_ref().map(|sent| sent.expired);
    let shown = expired.map_or_else(nothing, human::count);
    let mut line = overview::line(flow);
    line.insert(2, Cell { bad: expired.is_some_and(|expired| expired > 0), ..shown.into() });
    line
}

/// Frames that did not leave or did not arrive.
fn missing(flow: &FlowReport) -> u64 {
    let unsent = flow.sent.as_ref().map_or(0, |sent| {
        sent.expired.saturating_add(sent.not_reached).saturating_add(sent.failed)
    });
    unsent.saturating_add(flow.loss.map_or(0, |loss| loss.frames))
}
