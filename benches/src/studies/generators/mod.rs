//! The comparison of Iperf, D-ITG, MGEN and RUDE (Papadopoulos 2012) repeated, with iperf3 and Wirebeat's engines beside them.
//!
//! `data.rs` measures, `figures.rs` draws and says what is seen, `tables.rs` has the figures; this puts the chapters in the order of
//! the study.

mod data;
mod figures;
mod tables;
mod tcp;

use wirebeat_report::study::{Block, Chapter, Study};
use wirebeat_units::human::counted;

pub use data::BUCKET;

use self::data::{Data, LONG_LOADS, NINETY, SHORT_LOADS, SIXTY};
use self::figures::Group;
use super::condition::Condition;
use super::page::Heading;
use super::words::{BY_PAIRS, Standing};
use crate::rounds::Bench;

const TITLE: &str = "Traffic generators compared: Iperf, D-ITG, MGEN, RUDE, iperf3 and Wirebeat";

/// Measures and writes down.
pub fn study(bench: &mut Bench, heading: &Heading) -> Study {
    let mut data = Data::default();
    for condition in [Condition::Ideal, Condition::Cpu, Condition::Memory, Condition::Buffer] {
        data.measure(bench, condition);
    }
    let streams = tcp::chapter(bench);
    let (beside, verdicts) = tables::beside_the_best(&data);
    let chapters = vec![
        generators(&data),
        method(bench),
        throughput(&data),
        departures(&data, Condition::Ideal),
        cpu_time(&data),
        stressed(&data, Condition::Cpu),
        stressed(&data, Condition::Memory),
        buffer(&data),
        streams,
        Chapter {
            title: "Conclusions".to_owned(),
            blocks: vec![
                Block::Text(conclusion(&verdicts)),
                text(BY_PAIRS),
                text(COMPARED),
                Block::Table(beside),
                Block::Table(tables::thresholds(&data)),
                Block::Text(tables::GRADES.to_owned()),
                Block::Table(tables::summary(&data)),
            ],
        },
    ];
    let gaps = |group| figures::gaps(&data, Condition::Ideal, NINETY, group).1;
    let summary = vec![
        format!(
            "1470 bytes, other tools. {}",
            figures::throughput(&data, Group::Others, &LONG_LOADS).1
        ),
        format!(
            "1470 bytes, Wirebeat. {}",
            figures::throughput(&data, Group::Wirebeat, &LONG_LOADS).1
        ),
        format!("147 bytes at 89,285/s. {}", figures::flood(&data, None).1),
        format!("Gaps at 90 %, other tools. {}", gaps(Group::Others)),
        format!("Gaps at 90 %, Wirebeat. {}", gaps(Group::Wirebeat)),
        figures::cpu_time(&data, Group::Others).1,
        figures::cpu_time(&data, Group::Wirebeat).1,
        format!("CPU stressed. {}", figures::lost(&data, Condition::Cpu, data::FLOOD)),
        conclusion(&verdicts),
    ];
    heading.study(bench, TITLE, summary, chapters)
}

fn conclusion(verdicts: &[tables::Verdict]) -> String {
    let count = |standing| verdicts.iter().filter(|verdict| verdict.standing == standing).count();
    let worse = verdicts.iter().filter(|verdict| verdict.standing == Standing::Worse);
    let mut engines: Vec<(&str, usize)> = Vec::new();
    for verdict in worse {
        match engines.iter_mut().find(|(engine, _)| *engine == verdict.engine) {
            Some((_, count)) => *count += 1,
            None => engines.push((verdict.engine, 1)),
        }
    }
    let of: Vec<String> =
        engines.iter().map(|(engine, count)| format!("{engine} in {count}")).collect();
    let whom = if of.is_empty() { String::new() } else { format!(": {}", super::words::row(&of)) };
    format!(
        "Wirebeat's engines beside the best of the other tools in each of {} comparisons: better in {}, no difference shown in {}, worse in {}{whom}; \
         {} could not be compared.",
        verdicts.len(),
        count(Standing::Better),
        count(Standing::Level),
        count(Standing::Worse),
        count(Standing::Unknown)
    )
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn chapter(title: &str, blocks: Vec<Block>) -> Chapter {
    Chapter { title: title.to_owned(), blocks }
}

const GENERATORS: &str = "The study chose four tools; iperf3 and Wirebeat's engines stand beside them here. Each is a program of its own, \
    started as its users start it, bound to no CPU. Wirebeat gives its threads the heaviest weight where it may (--priority high, its \
    default) and waits by --wait hybrid, its default as well: it sleeps until shortly before a deadline and then reads the clock, which costs \
    CPU time (--wait sleep costs least, and is not measured here); RUDE's manner runs at SCHED_FIFO, as RUDE does. RUDE itself could not be had: this \
    distribution has no package of it. In its place a loop of ours reads the clock until the next datagram is due and sends it with one call. The features are \
    those of manuals, and were not measured. Sizes are of the program's own file without libraries that it shares (iperf3 is mostly one); \
    what is loaded leaves out debug information.";

fn generators(data: &Data) -> Chapter {
    let blocks =
        vec![text(GENERATORS), Block::Table(tables::features()), Block::Table(tables::sizes(data))];
    chapter("The generators", blocks)
}

const COMPARED: &str = "Throughput counts up to what was offered: who sends more is not better for it. Gaps and CPU time are compared with \
    those tools alone that deliver what was offered within 1 %; where none of them does, there is no row. That may leave out RUDE's manner: the \
    kernel keeps real-time threads to 95 % of a CPU (sched_rt_runtime_us), and a loop that never sleeps loses what is due in the rest.";

const METHOD: &str = "The study connected two machines by Fast Ethernet. Here two network namespaces of one machine are connected by virtual \
    cables through a device: an eBPF program with a token bucket of 100 Mbit/s that counts preamble, FCS and gap. It polices: what finds no \
    token is dropped and nothing waits, so that no sender is held back by a full line, as one is by a real card. It carries a burst of 64 \
    long frames (98,304 bytes) before it drops.";
const GAPS: &str = "Times between packets are those of one capture for all (tcpdump, kernel timestamps in nanoseconds) on the first interface \
    behind the device that a capture can see: frames that eBPF programs or packet sockets send do not pass the sending interface's own tap. On \
    a virtual cable a frame gets there on the CPU and in the call that sent it. Packets that the bucket drops are missing in it: the column \
    \"arrived\" says how many came. Loads of 60 and 90 % are what the study calls so: gaps of 196 and 130 µs with 1470 bytes.";
const FIGURES: &str = "Throughput counts payload at the far interface. Every load is measured once a round for everybody, each round begins with \
    somebody else, and every other round goes backwards. Intervals beside means, and the bars at points of pictures, are of 95 % by Student's t over the rounds; who is better or worse is \
    said by paired rounds alone (see Conclusions). CPU time is that of the \
    sending process, looked at every 0.5 s; work that the kernel does for it in interrupts of its CPU may fall to others and is in the \
    column \"machine\". At 60 and 90 % the capture runs as well. With only two CPUs, senders, receivers and the capture share them.";

fn method(bench: &Bench) -> Chapter {
    let shorter = format!(
        "The study measured 20 s each time. Here it is {:.1} s in each of {}, so that the whole takes minutes: make bench-generators \
         ARGS='--time 20s --rounds 10' measures as long as the study did.",
        bench.time.as_secs_f64(),
        counted(bench.rounds as u64, "round")
    );
    let whole = bench.time.as_secs() >= 20;
    let blocks = [text(METHOD), text(GAPS), text(FIGURES)].into_iter();
    chapter("Test bed and method", blocks.chain((!whole).then(|| text(&shorter))).collect())
}

fn throughput(data: &Data) -> Chapter {
    let of = [&LONG_LOADS[..], &SHORT_LOADS];
    let pictures = of.map(|loads| Group::BOTH.map(|group| figures::throughput(data, group, loads)));
    let loads = [&LONG_LOADS[..], &SHORT_LOADS].concat();
    let title = "Throughput in Mbit/s of payload: means and 95 % intervals";
    let blocks = vec![
        Block::Pictures(
            pictures.into_iter().flatten().chain([figures::flood(data, None)]).collect(),
        ),
        Block::Table(tables::throughput(data, Condition::Ideal, &loads, title)),
    ];
    chapter("Throughput", blocks)
}

fn gap_blocks(data: &Data, condition: Condition) -> Vec<Block> {
    let mut pictures = Vec::new();
    for load in [SIXTY, NINETY] {
        pictures.extend(Group::BOTH.map(|group| figures::gaps(data, condition, load, group)));
    }
    pictures.extend([SIXTY, NINETY].map(|load| figures::boxes(data, condition, load)));
    vec![Block::Pictures(pictures), Block::Table(tables::gaps(data, condition))]
}

fn departures(data: &Data, condition: Condition) -> Chapter {
    chapter("Inter-departure times", gap_blocks(data, condition))
}

fn cpu_time(data: &Data) -> Chapter {
    let pictures = Group::BOTH.map(|group| figures::cpu_time(data, group));
    let blocks = vec![Block::Pictures(pictures.into()), Block::Table(tables::cpu_time(data))];
    chapter("CPU consumption", blocks)
}

/// What was done for a condition; the reason alone where it is not reproduced.
fn held(data: &Data, condition: Condition) -> Result<Vec<Block>, Vec<Block>> {
    match data.held(condition) {
        Ok(said) => Ok(vec![text(&said.join(" "))]),
        Err(why) => Err(vec![text(&format!("Not reproduced on this machine: {why}."))]),
    }
}

fn stressed(data: &Data, condition: Condition) -> Chapter {
    let title = match condition {
        Condition::Cpu => "Stressed CPU",
        _ => "Stressed memory",
    };
    let mut blocks = match held(data, condition) {
        Ok(blocks) => blocks,
        Err(why) => return chapter(title, why),
    };
    let loads = [SIXTY, NINETY, data::FLOOD];
    let of = format!("Throughput in Mbit/s of payload, {}", condition.name());
    blocks.push(Block::Pictures(vec![figures::flood(data, Some(condition))]));
    blocks.push(Block::Table(tables::throughput(data, condition, &loads, &of)));
    blocks.extend(gap_blocks(data, condition));
    chapter(title, blocks)
}

fn buffer(data: &Data) -> Chapter {
    const TITLE: &str = "Limited send buffer";
    let condition = Condition::Buffer;
    let mut blocks = match held(data, condition) {
        Ok(blocks) => blocks,
        Err(why) => return chapter(TITLE, why),
    };
    let loads = [SIXTY, NINETY, data::BEYOND];
    blocks.push(text(&figures::against_theory(data, &data::SENDERS, condition, &loads)));
    let beyond = figures::beside_ideal(data, Some(condition), data::BEYOND, "throughput");
    blocks.push(Block::Pictures(vec![beyond]));
    let of = "Throughput in Mbit/s of payload, with a small send buffer";
    blocks.push(Block::Table(tables::throughput(data, condition, &loads, of)));
    blocks.extend(gap_blocks(data, condition));
    chapter(TITLE, blocks)
}
