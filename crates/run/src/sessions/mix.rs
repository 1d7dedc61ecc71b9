//! What each group had of a rate that groups shared.

use wirebeat_report::model::{MixReport, MixShare, MixShared, Report, SessionEnd, SessionReport};
use wirebeat_traffic::program::script::Sessions;
use wirebeat_traffic::scenario::Scenario;
use wirebeat_units::{LINE_OVERHEAD, Layer, Rate};

/// Of a report with all its groups; `None` where they shared none.
pub(super) fn of(scenario: &Scenario, sessions: &Sessions, report: &Report) -> Option<MixReport> {
    let mix = scenario.mix.as_ref()?;
    let shared = match mix.rate {
        Rate::Bits(..) => MixShared::Bits,
        _ => MixShared::Starts,
    };
    let at = |name: &str, end| {
        report.sessions.iter().find(|group| group.name == name && group.end == end)
    };
    let got: Vec<Option<u64>> = mix
        .shares
        .keys()
        .map(|name| {
            let client = at(name, SessionEnd::Client)?;
            let Rate::Bits(_, layer) = mix.rate else { return Some(client.starts.opened) };
            // somebody else's servers do not say what they sent
            let plan = sessions.groups.iter().find(|group| group.name == *name)?;
            let server = at(name, SessionEnd::Server).filter(|_| plan.both_ends)?;
            let server = bits(server, layer)?;
            Some(bits(client, layer)?.saturating_add(server))
        })
        .collect();
    let asked: u64 = mix.shares.values().map(|share| u64::from(share.get())).sum();
    let had =
        got.iter().try_fold(0_u64, |sum, got| sum.checked_add((*got)?)).filter(|had| *had > 0);
    let groups = mix.shares.iter().zip(got).map(|((name, share), got)| {
        let known = had.zip(got);
        let client = at(name, SessionEnd::Client);
        let opened = client.map(|client| client.starts.opened).filter(|opened| *opened > 0);
        let rate = client.and_then(|client| Some(client.rates?.opened_per_second));
        let each = known.zip(opened).map(|((_, got), opened)| got as f64 / opened as f64);
        MixShare {
            name: name.clone(),
            asked_ratio: f64::from(share.get()) / asked as f64,
            got_ratio: known.map(|(had, got)| got as f64 / had as f64),
            got: known.map(|(_, got)| got),
            // rates of starts may be small; both have some six digits
            got_per_second: each.zip(rate).map(|(each, rate)| (each * rate * 1e3).round() / 1e3),
        }
    });
    let rate = match mix.rate {
        Rate::Frames(rate) => rate.per_second_text(),
        rate => rate.to_string(),
    };
    Some(MixReport { rate, of: shared, groups: groups.collect() })
}

/// Bits that an end sent, as a layer counts them.
fn bits(end: &SessionReport, layer: Layer) -> Option<u64> {
    let bytes = match layer {
        Layer::Payload => end.bytes.sent,
        // an end that sent nothing has no frames
        Layer::Frame => end.frames.unwrap_or_default().sent_bytes,
        Layer::Line => {
            let frames = end.frames.unwrap_or_default();
            let between = frames.sent.saturating_mul(u64::from(LINE_OVERHEAD));
            frames.sent_bytes.saturating_add(between)
        }
    };
    let is_known = layer == Layer::Payload || end.stack == "own";
    is_known.then(|| bytes.saturating_mul(8))
}
