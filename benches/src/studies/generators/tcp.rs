//! TCP through a line of the same speed with a queue, which the study left to others: one stream of bulk data.

use wirebeat_report::pictures::means::{MeanRow, means};
use wirebeat_report::pictures::scale::Unit;
use wirebeat_report::student::mean_within;
use wirebeat_report::study::{Block, Chapter, Table};

use super::super::words::{Standing, bits, interval, row, standing};
use super::data::{DEPTH, LINE};
use crate::lab::{Between, Lab};
use crate::rounds::{Bench, Contestant, in_rotation};
use crate::sections::bulk::{Who, throughput};
use crate::sessions::{Path, Tcp};

/// Who sends a stream: the first is what the others are held against.
const STREAMS: [(&str, Who); 3] = [
    ("iperf3", Who::Iperf3),
    ("Wirebeat host", Who::Bulk(Tcp::Host, Tcp::Host)),
    ("Wirebeat own", Who::Bulk(Tcp::Packet, Tcp::Host)),
];

/// Payload of a full segment with timestamps (RFC 7323), and what it takes on a line.
const SEGMENT: f64 = 1448.0;
const ON_LINE: f64 = 1448.0 + 12.0 + 20.0 + 20.0 + 18.0 + 20.0;

const PROSE: &str = "The study left TCP to later work. One stream goes from the near to the far end over a line of 100 Mbit/s, \
    for as long as any other measurement (iperf3 takes whole seconds): iperf3 with both ends its own, wirebeat load to wirebeat serve over sockets of the system (host), \
    and our own TCP to the system's (own). The line is a program in user space with a queue of 98,304 bytes before it, not \
    the token bucket: a bucket without a queue has TCP wait for timeouts most of the time, whoever sends.";

/// Measures, and writes the chapter.
pub fn chapter(bench: &mut Bench) -> Chapter {
    let contestants: Vec<Contestant<'_, f64>> = STREAMS
        .iter()
        .map(|&(name, who)| {
            Contestant::new(format!("TCP: {name}"), move |bench: &Bench| {
                throughput(bench, who, Path::Cable)
            })
        })
        .collect();
    let line = Between::Queue { bits_per_second: LINE, bytes: DEPTH };
    let lab = match Lab::with(line) {
        Ok(lab) => lab,
        Err(why) => {
            let text = format!("Not measured: {why}.");
            return Chapter { title: "TCP".to_owned(), blocks: vec![Block::Text(text)] };
        }
    };
    let before = std::mem::replace(&mut bench.lab, lab);
    let measured = in_rotation(bench, &contestants, |rate| bits(*rate));
    bench.lab = before;
    let theory = LINE as f64 * SEGMENT / ON_LINE;
    let heads = ["stream", "delivered", "of the line", "remark"];
    let mut table = Table::new("TCP: means and 95 % intervals", &heads);
    let (mut rows, mut words) = (Vec::new(), Vec::new());
    let first = measured.first().map(|of| of.paired(|rate| *rate)).unwrap_or_default();
    for (place, ((name, _), of)) in STREAMS.iter().zip(&measured).enumerate() {
        let (mean, within) = mean_within(&of.values).unzip();
        let share = mean.map_or_else(String::new, |mean| format!("{:.1} %", mean / theory * 100.0));
        table.row(vec![(*name).to_owned(), interval(&of.values, bits), share, of.remark()]);
        rows.push(MeanRow {
            name: (*name).to_owned(),
            mean,
            within: within.flatten(),
            second: false,
        });
        if place > 0 {
            words.push(match standing(&of.paired(|rate| *rate), &first, true) {
                Standing::Better => format!("{name} delivers more than iperf3"),
                Standing::Worse => format!("{name} delivers less than iperf3"),
                Standing::Level => format!("{name} shows no difference to iperf3"),
                Standing::Unknown => format!("{name} could not be compared with iperf3"),
            });
        }
    }
    let limit = Some((theory, "dashed: full segments on the line"));
    let picture = means("tcp", "TCP: payload delivered", &rows, limit, Unit::BitRate);
    let says = format!("By the bootstrap interval of paired rounds, {}.", row(&words));
    let blocks = vec![
        Block::Text(PROSE.to_owned()),
        Block::Pictures(vec![(picture, says)]),
        Block::Table(table),
    ];
    Chapter { title: "TCP".to_owned(), blocks }
}
