//! A port's card in a few lines: how it was set, which queues had frames, what it lost.

use crate::human;
use crate::model::QueueChoice;
use crate::model::{Card, CardCoalescing, CardPause, CounterMeaning, QueueFrames, TransmitQueue};

/// Queues that are shown one by one.
const QUEUES: usize = 16;
/// Counters that are shown.
const COUNTERS: usize = 8;

/// The lines about a card: none of a virtual device that says nothing of note.
pub fn lines(card: &Card, receives: bool) -> Vec<String> {
    let (of_way, spread) = match receives {
        true => (
            card.rings.map(|rings| (rings.receive, rings.receive_max)),
            card.rss.as_ref().map(|rss| format!("RSS {}", rss.summary)),
        ),
        false => (card.rings.map(|rings| (rings.transmit, rings.transmit_max)), None),
    };
    let ring = match of_way.unwrap_or_default() {
        (Some(now), Some(most)) => Some(format!("ring of {now} (at most {most})")),
        (Some(now), None) => Some(format!("ring of {now}")),
        _ => None,
    };
    let coalescing = card.coalescing.and_then(|coalescing| held_back(coalescing, receives));
    let pause = card.pause.and_then(|pause| pauses(pause, receives));
    let settings: Vec<String> = [ring, spread, coalescing, pause].into_iter().flatten().collect();
    let mut lines = Vec::new();
    if !settings.is_empty() {
        let driver = card.driver.as_deref().map_or(String::new(), |driver| format!(" ({driver})"));
        lines.push(format!("card{driver}: {}", settings.join(", ")));
    }
    lines.extend(queues(&card.queues, receives));
    lines.extend(counters(card));
    for change in &card.changed {
        lines
            .push(format!("{} changed from {} to {}", change.setting, change.before, change.after));
    }
    lines
}

fn held_back(of: CardCoalescing, receives: bool) -> Option<String> {
    let (time, adaptive) = match receives {
        true => (of.receive_us, of.adaptive_receive),
        false => (of.transmit_us, of.adaptive_transmit),
    };
    match (time, adaptive) {
        (_, Some(true)) => Some("interrupts held back adaptively".to_owned()),
        (Some(0), _) => Some("interrupts at once".to_owned()),
        (Some(us), _) => Some(format!("interrupts held back up to {us} µs")),
        (None, _) => None,
    }
}

fn pauses(of: CardPause, receives: bool) -> Option<String> {
    let (on, what) = match receives {
        true => (of.sent?, "pause frames sent"),
        false => (of.heeded?, "pause frames heeded"),
    };
    Some(format!("{what}: {}", if on { "yes" } else { "no" }))
}

fn queues(queues: &[QueueFrames], receives: bool) -> Option<String> {
    let of = |queue: &QueueFrames| if receives { queue.received } else { queue.sent };
    let used: Vec<&QueueFrames> = queues.iter().filter(|queue| of(queue) > 0).collect();
    let (first, rest) = used.split_first()?;
    let way = if receives { "received" } else { "sent" };
    let share =
        |queue: &&&QueueFrames| format!("{} by queue {}", human::count(of(queue)), queue.queue);
    let mut text = format!("frames {way} {}", share(&first));
    for queue in rest.iter().take(QUEUES - 1) {
        text += &format!(", {}", share(&queue));
    }
    if rest.len() >= QUEUES {
        text += &format!(" and {} more", rest.len() + 1 - QUEUES);
    }
    Some(text + ", by the driver's count")
}

/// What it counted that says something of frames.
fn counters(card: &Card) -> Option<String> {
    let known = |meaning: &Option<CounterMeaning>| meaning.is_some();
    let mut shown: Vec<String> = Vec::new();
    for counter in card.counters.iter().filter(|counter| known(&counter.meaning)) {
        let text = format!("{} {}", counter.name, human::count(counter.increase));
        if !shown.contains(&text) {
            shown.push(text);
        }
    }
    let more = shown.len().saturating_sub(COUNTERS);
    shown.truncate(COUNTERS);
    (!shown.is_empty()).then(|| {
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("card counted {}{more}", shown.join(", "))
    })
}

/// Which transmit queue a thread's frames leave by.
pub fn transmit_queue(of: &TransmitQueue, all: Option<u32>) -> Option<String> {
    let numbers: Vec<String> = of.queues.iter().map(u32::to_string).collect();
    let how = match of.by {
        QueueChoice::Only => return None,
        QueueChoice::Xps if numbers.len() > 1 => "XPS of its CPU, by a hash of the frame",
        QueueChoice::Xps => "XPS of its CPU",
        QueueChoice::Cpu => "the number of its CPU",
        QueueChoice::Sender => "of its own",
    };
    let all = all.map_or(String::new(), |all| format!(" of {all}"));
    Some(format!(", transmit queue {}{all} ({how})", numbers.join(" or ")))
}
