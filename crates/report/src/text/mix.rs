//! Shares of a mix: asked for and had.

use super::style::{Style, clean};
use super::table::{Cell, NOTHING, Table};
use crate::human;
use crate::model::{MixReport, MixShared, Report};

/// Groups that are shown; the rest are in the JSON form.
const GROUPS: usize = 24;

/// What is shared, and what its column is called.
pub(crate) const fn words(of: MixShared) -> (&'static str, &'static str) {
    match of {
        MixShared::Bits => ("bits of both ends", "bits"),
        MixShared::Starts => ("session starts", "starts"),
    }
}

/// What sessions of all groups that were started in a second had.
pub(crate) fn average(mix: &MixReport) -> Option<String> {
    let rate = mix.got_per_second()?;
    Some(match mix.of {
        MixShared::Bits => human::bit_rate(rate),
        MixShared::Starts => format!("{}/s", human::number(rate)),
    })
}

/// What each group had of the rate that they shared; nothing where there was none.
pub fn mix(report: &Report, style: Style) -> String {
    let Some(mix) = &report.mix else { return String::new() };
    let (unit, head) = words(mix.of);
    let mut heading = format!("mix of {} ({unit})", mix.rate);
    if let Some(rate) = average(mix) {
        heading += &format!(": {rate} of sessions that were started in a second");
    }
    let mut table = Table::new(&["group", "asked", "had", head]);
    for group in mix.groups.iter().take(GROUPS) {
        let share = |ratio: f64| Cell::from(human::percent(ratio));
        let nothing = || Cell::from(NOTHING.to_owned());
        table.row(vec![
            clean(&group.name).into(),
            share(group.asked_ratio),
            group.got_ratio.map_or_else(nothing, share),
            group.got.map_or_else(nothing, |got| human::count(got).into()),
        ]);
    }
    let mut out = style.strong(&clean(&heading)) + "\n" + &table.without_empty(2).render(2, style);
    if let Some(more) = mix.groups.len().checked_sub(GROUPS).filter(|&more| more > 0) {
        let more = human::counted(more as u64, "more group");
        out += &format!("  {more}: in the JSON form of this report\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Colour;
    use crate::model::MixShare;

    fn told(mix: MixReport) -> String {
        let mut report =
            crate::assemble::assemble(crate::golden::facts("wirebeat run"), None, None);
        report.mix = Some(mix);
        self::mix(&report, Style::new(Colour::Never))
    }

    #[test]
    fn each_group_has_its_share() {
        let share = |name: &str, asked_ratio, got_ratio, got| MixShare {
            name: name.to_owned(),
            asked_ratio,
            got_ratio,
            got,
            got_per_second: got.map(|got: u64| got as f64 / 2.0),
        };
        let bits = MixReport {
            rate: "10Mbps".to_owned(),
            of: MixShared::Bits,
            groups: vec![
                share("web", 0.75, Some(0.8), Some(16_000_000)),
                share("\u{1b}[31m", 0.25, Some(0.2), Some(4_000_000)),
            ],
        };
        let text = told(bits.clone());
        assert!(
            text.starts_with("mix of 10Mbps (bits of both ends): 10.0 Mbit/s of sessions"),
            "{text}"
        );
        assert!(
            text.contains("web")
                && text.contains("80.0 %")
                && text.contains(&human::count(16_000_000)),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'), "{text}");
        let unknown = bits.groups.iter().map(|group| MixShare {
            got: None,
            got_ratio: None,
            got_per_second: None,
            ..group.clone()
        });
        let text = told(MixReport { groups: unknown.collect(), ..bits });
        assert!(!text.contains("of sessions") && !text.contains("had"), "{text}");
    }
}
