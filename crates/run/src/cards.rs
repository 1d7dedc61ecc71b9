//! The cards of a run's ports: read before and after it, and what the report says of them. Never read meanwhile.

use wirebeat_host::card::counters::{Meaning, Way, dropped, meaning, queue};
use wirebeat_host::card::{Card, Increase, Rss, Source};
use wirebeat_netlink::Netlink;
use wirebeat_report::model::{
    self, CardChange, CardCoalescing, CardCounter, CardPause, CardRings, CardRss, CounterMeaning,
    CounterSource, QueueFrames, QueueShare,
};

use crate::ports::ResolvedPort;

/// Counters of a card in a report: those that say something of frames are a dozen; the others are for who knows them.
const COUNTERS: usize = 256;
/// Queues of a card in a report.
const QUEUES: usize = 1024;

/// What the card of a port says now; `None` for ports without one.
pub(crate) fn read(port: &ResolvedPort) -> Option<Card> {
    let link = port.link.as_ref()?;
    let read = || Netlink::open().ok().map(|mut netlink| Card::read(&mut netlink, link));
    port.enter(read).ok().flatten()
}

/// What the cards of all ports say now.
pub(crate) fn read_all(ports: &[ResolvedPort]) -> Vec<Option<Card>> {
    ports.iter().map(read).collect()
}

/// What the report says of the cards of all ports.
#[derive(Debug)]
pub(crate) struct CardReports(Vec<Option<model::Card>>);

impl CardReports {
    pub(crate) fn new(before: &[Option<Card>], after: &[Option<Card>]) -> CardReports {
        let both = before.iter().zip(after);
        CardReports(both.map(|(before, after)| report(before.as_ref(), after.as_ref())).collect())
    }

    /// Of the port at a place.
    pub(crate) fn of(&self, place: usize) -> Option<model::Card> {
        self.0.get(place).cloned().flatten()
    }
}

/// What the report says of a card that was read before and after a run; `None` where it says nothing of itself.
pub(crate) fn report(before: Option<&Card>, after: Option<&Card>) -> Option<model::Card> {
    // what vanished in the meantime has counted nothing that is known
    let before = before?;
    let after = after.unwrap_or(before);
    let settings = &before.settings;
    let increases = after.increases(before);
    let silent = before.driver.is_none()
        && settings.rings.is_none()
        && settings.rss.is_none()
        && increases.is_empty();
    if silent {
        return None;
    }
    let (counters, more_counters) = counters(&increases);
    Some(model::Card {
        driver: before.driver.clone(),
        rings: settings.rings.map(|rings| CardRings {
            receive: rings.rx,
            receive_max: rings.rx_max,
            transmit: rings.tx,
            transmit_max: rings.tx_max,
        }),
        coalescing: settings.coalescing.map(|of| CardCoalescing {
            receive_us: of.rx_usecs,
            receive_frames: of.rx_frames,
            transmit_us: of.tx_usecs,
            transmit_frames: of.tx_frames,
            adaptive_receive: of.adaptive_rx,
            adaptive_transmit: of.adaptive_tx,
        }),
        pause: settings.pause.map(|pause| CardPause {
            negotiated: pause.autonegotiated,
            heeded: pause.rx,
            sent: pause.tx,
        }),
        rss: settings.rss.as_ref().map(rss),
        queues: match queues(&increases) {
            none if none.is_empty() => queues_by_kernel(before, after),
            queues => queues,
        },
        dropped_in: dropped(&increases, Way::In),
        dropped_out: dropped(&increases, Way::Out),
        paused_by_peer: paused_by_peer(&increases),
        counters,
        more_counters,
        changed: changed(before, after),
    })
}

fn rss(rss: &Rss) -> CardRss {
    let shares = rss.shares().into_iter().take(QUEUES);
    CardRss {
        summary: rss.to_string(),
        hash: rss.hash.map(str::to_owned),
        entries: rss.table.len() as u32,
        queues: shares.map(|(queue, entries)| QueueShare { queue, entries }).collect(),
    }
}

/// Frames of each queue that had some, in the order of the queues.
fn queues(increases: &[Increase]) -> Vec<QueueFrames> {
    let mut queues: Vec<QueueFrames> = Vec::new();
    for Increase { source, name, by } in increases {
        let meant = meaning(name).map(|(meaning, _)| meaning);
        let way = match meant.filter(|_| *source == Source::Driver) {
            Some(Meaning::QueueIn) => Way::In,
            Some(Meaning::QueueOut) => Way::Out,
            _ => continue,
        };
        let Some(number) = queue(name) else { continue };
        let at = match queues.binary_search_by_key(&number, |queue| queue.queue) {
            Ok(at) => at,
            Err(_) if queues.len() >= QUEUES => continue,
            Err(at) => {
                queues.insert(at, QueueFrames { queue: number, ..QueueFrames::default() });
                at
            }
        };
        let frames = match way {
            Way::In => &mut queues[at].received,
            Way::Out => &mut queues[at].sent,
        };
        *frames = frames.saturating_add(*by);
    }
    queues
}

/// The same by the kernel's own interface, for drivers that count there.
fn queues_by_kernel(before: &Card, after: &Card) -> Vec<QueueFrames> {
    let all = after.queue_frames(before).into_iter().take(QUEUES);
    all.map(|(queue, received, sent)| QueueFrames { queue, received, sent }).collect()
}

/// Those that say that frames were lost, damaged or had to wait, the gravest first, and then others; and how many more.
fn counters(increases: &[Increase]) -> (Vec<CardCounter>, u64) {
    let counter = |Increase { source, name, by }: &Increase| {
        let known = meaning(name);
        CardCounter {
            name: name.clone(),
            source: match source {
                Source::Kernel => CounterSource::Kernel,
                Source::Driver => CounterSource::Driver,
            },
            increase: *by,
            meaning: known.and_then(|(meaning, _)| meant(meaning)),
            explanation: known.map(|(_, told)| told.to_owned()),
        }
    };
    let mut all: Vec<CardCounter> = increases.iter().map(counter).collect();
    // stable: the driver's order among those of one meaning
    all.sort_by_key(|counter| (counter.meaning.is_none(), counter.meaning));
    let more = all.len().saturating_sub(COUNTERS);
    all.truncate(COUNTERS);
    (all, more as u64)
}

fn meant(meaning: Meaning) -> Option<CounterMeaning> {
    Some(match meaning {
        Meaning::DroppedIn(_) => CounterMeaning::DroppedIn,
        Meaning::Damaged => CounterMeaning::Damaged,
        Meaning::DroppedByHost => CounterMeaning::DroppedByHost,
        Meaning::DroppedOut(_) => CounterMeaning::DroppedOut,
        Meaning::PausedByPeer => CounterMeaning::PausedByPeer,
        Meaning::PausedPeer => CounterMeaning::PausedPeer,
        Meaning::Waited => CounterMeaning::Waited,
        // they are in the list of queues
        Meaning::QueueIn | Meaning::QueueOut => return None,
    })
}

/// The largest of the counters that say so: some drivers have one for the link and one for each priority.
fn paused_by_peer(increases: &[Increase]) -> u64 {
    let asked = |increase: &&Increase| {
        meaning(&increase.name).is_some_and(|(meaning, _)| meaning == Meaning::PausedByPeer)
    };
    increases.iter().filter(asked).map(|increase| increase.by).max().unwrap_or(0)
}

fn changed(before: &Card, after: &Card) -> Vec<CardChange> {
    let changes = before.settings.changes(&after.settings).into_iter();
    let change = |change: wirebeat_host::card::SettingChange| CardChange {
        setting: change.what.to_owned(),
        before: change.before,
        after: change.after,
    };
    changes.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(counters: &[(&str, u64)]) -> Card {
        let counters = counters.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Card { driver: Some("igb".to_owned()), counters, ..Card::default() }
    }

    #[test]
    fn what_a_card_lost_stands_before_what_nobody_knows() {
        let before = card(&[("strange", 0), ("rx_missed_errors", 5), ("rx_queue_1_packets", 7)]);
        let after = card(&[("strange", 9), ("rx_missed_errors", 8), ("rx_queue_1_packets", 17)]);
        let said = report(Some(&before), Some(&after)).unwrap();
        let names: Vec<&str> = said.counters.iter().map(|counter| counter.name.as_str()).collect();
        assert_eq!(names, ["rx_missed_errors", "strange", "rx_queue_1_packets"]);
        assert_eq!(said.counters[0].meaning, Some(CounterMeaning::DroppedIn));
        assert_eq!((said.dropped_in, said.dropped_out, said.more_counters), (3, 0, 0));
        assert_eq!(said.queues, [QueueFrames { queue: 1, received: 10, sent: 0 }]);
    }

    #[test]
    fn a_report_is_bounded_whatever_a_driver_has() {
        let names: Vec<String> = (0..2000).map(|n| format!("rx_queue_{n}_packets")).collect();
        let of = |value| {
            let all: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), value)).collect();
            card(&all)
        };
        let said = report(Some(&of(1)), Some(&of(2))).unwrap();
        assert_eq!(said.counters.len(), COUNTERS);
        assert_eq!(said.more_counters, 2000 - COUNTERS as u64);
        assert_eq!(said.queues.len(), QUEUES);
    }

    #[test]
    fn what_says_nothing_of_itself_has_no_card() {
        assert_eq!(report(Some(&Card::default()), Some(&Card::default())), None);
        assert_eq!(report(None, None), None);
        // an interface that vanished
        assert!(report(Some(&card(&[])), None).is_some());
    }
}
