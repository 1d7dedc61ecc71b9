//! What the cards of a run lost, were told to wait for, or had changed: findings apart from what is tested.

use super::findings::{frames, listed};
use crate::human;
use crate::model::{Card, CounterMeaning, Report, Station};

/// Counters that a finding names.
const NAMED: usize = 3;

/// Receiving cards that dropped frames. Their counters are of all frames of the interface, so of the lost they are a bound.
pub(super) fn dropped_in(report: &Report) -> Option<String> {
    let dropping = |(_, card): &(&Station, &Card)| card.dropped_in > 0;
    let all: Vec<_> = cards(&report.receivers).filter(dropping).collect();
    let (station, card) = *all.iter().max_by_key(|(_, card)| card.dropped_in)?;
    let total: u64 = all.iter().fold(0, |sum, (_, card)| sum.saturating_add(card.dropped_in));
    let interface = interface(station);
    let of_lost = match report.total.loss.map(|loss| loss.frames) {
        None => String::new(),
        Some(0) => "; none of this run's are lost".to_owned(),
        Some(lost) => format!(
            "; of the {} lost at most {} were dropped there",
            human::count(lost),
            human::count(lost.min(total))
        ),
    };
    let rings = card.rings.unwrap_or_default();
    let remedy = match (rings.receive, rings.receive_max) {
        (Some(now), Some(most)) if now < most => {
            format!(
                "its receive ring has {now} of {most} entries: `ethtool -G {interface} rx {most}`"
            )
        }
        _ => "more queues (`ethtool -L`), or a lower rate, would help".to_owned(),
    };
    Some(format!(
        "the card of {interface} dropped {} that came in ({}){of_lost}; {remedy}{}",
        frames(card.dropped_in),
        named(card, CounterMeaning::DroppedIn),
        more(all.len())
    ))
}

/// Sending cards that dropped frames which counted as sent.
pub(super) fn dropped_out(report: &Report) -> Option<String> {
    // what a device refuses and an engine then sends is in these counters, too
    let lost = report.total.loss.map(|loss| loss.frames).filter(|&lost| lost > 0)?;
    let dropping = |(_, card): &(&Station, &Card)| card.dropped_out > 0;
    let all: Vec<_> = cards(&report.senders).filter(dropping).collect();
    let (station, card) = *all.iter().max_by_key(|(_, card)| card.dropped_out)?;
    let total: u64 = all.iter().fold(0, |sum, (_, card)| sum.saturating_add(card.dropped_out));
    // those that the engine was told of are no longer among the sent
    let failed = report.total.sent.as_ref().map_or(0, |sent| sent.failed);
    let total = total.checked_sub(failed).filter(|&total| total > 0)?;
    Some(format!(
        "the device of {} dropped {} that were to leave ({}; what it refused and then sent counts, too); of the {} lost at most {} were dropped there: lower the \
         rate, or make its rings longer (`ethtool -G`){}",
        interface(station),
        frames(card.dropped_out),
        named(card, CounterMeaning::DroppedOut),
        human::count(lost),
        human::count(lost.min(total)),
        more(all.len())
    ))
}

/// Senders whose link partner told them to wait: what left late then is not their fault.
pub(super) fn paused(report: &Report) -> Option<String> {
    let paused = |(_, card): &(&Station, &Card)| card.paused_by_peer > 0;
    let all: Vec<_> = cards(&report.senders).filter(paused).collect();
    let (station, card) = *all.iter().max_by_key(|(_, card)| card.paused_by_peer)?;
    let interface = interface(station);
    Some(format!(
        "the other end of the link of {interface} asked it to pause {} ({}): frames waited in the card, past their \
         recorded departures; `ethtool -A {interface} rx off` keeps it from pausing{}",
        human::counted(card.paused_by_peer, "time"),
        named(card, CounterMeaning::PausedByPeer),
        more(all.len())
    ))
}

/// Settings of cards that somebody changed meanwhile.
pub(super) fn changed(report: &Report) -> Option<String> {
    let stations = report.senders.iter().chain(&report.receivers);
    let mut said: Vec<String> = Vec::new();
    for (station, card) in cards(stations) {
        for change in &card.changed {
            let (setting, before, after) = (&change.setting, &change.before, &change.after);
            let text = format!("{setting} of {} from {before} to {after}", interface(station));
            // a port that sends and receives is there twice
            if !said.contains(&text) {
                said.push(text);
            }
        }
    }
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    (!said.is_empty()).then(|| {
        format!(
            "settings of cards were changed during the run: {}; what was measured before and after does not compare",
            listed(&said)
        )
    })
}

fn cards<'a>(
    stations: impl IntoIterator<Item = &'a Station>,
) -> impl Iterator<Item = (&'a Station, &'a Card)> {
    stations.into_iter().filter_map(|station| Some((station, station.card.as_ref()?)))
}

fn interface(station: &Station) -> &str {
    station.interface.as_deref().unwrap_or("the interface")
}

/// The counters of a card that say so, the largest first.
fn named(card: &Card, meaning: CounterMeaning) -> String {
    let mut of: Vec<_> =
        card.counters.iter().filter(|counter| counter.meaning == Some(meaning)).collect();
    of.sort_by_key(|counter| std::cmp::Reverse(counter.increase));
    let mut said: Vec<String> = Vec::new();
    for counter in of {
        let text = format!("{} {}", counter.name, human::count(counter.increase));
        // the kernel's and the driver's counter of one name
        if said.len() < NAMED && !said.contains(&text) {
            said.push(text);
        }
    }
    said.join(", ")
}

fn more(cards: usize) -> String {
    match cards.saturating_sub(1) {
        0 => String::new(),
        1 => "; the same is true of 1 other card".to_owned(),
        more => format!("; the same is true of {more} other cards"),
    }
}
