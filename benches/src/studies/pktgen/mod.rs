//! The study of pktgen (Turull, Sjödin, Olsson 2016) repeated: rates, cores, latency.
//!
//! `rates.rs` has the first three experiments, `latency.rs` the last two. All on a virtual cable without a device.

mod latency;
mod rates;

use std::path::Path;

use wirebeat_report::pictures::Picture;
use wirebeat_report::study::{Block, Chapter, Study};
use wirebeat_traffic::scenario::EngineChoice;
use wirebeat_units::human::counted;

use super::page::Heading;
use crate::rounds::Bench;

const TITLE: &str = "Pktgen's measurements repeated: rates, cores, latency";

/// The name of an engine in tables.
pub fn named(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Kernel => "Wirebeat kernel",
        EngineChoice::Packet => "Wirebeat packet",
        EngineChoice::Socket => "Wirebeat socket",
        EngineChoice::Xdp => "Wirebeat xdp",
        _ => "Wirebeat",
    }
}

const TOOLS: &str = "The study measured the kernel's pktgen beside iperf3, Netperf, Netmap and DPDK over 10 Gbit/s between two machines. Here two network \
    namespaces of one machine are connected by a virtual cable: no card limits or helps, and the limit is what software does with a packet. \
    Wirebeat's kernel engine is closest to pktgen: packets are made in the kernel, by eBPF programs instead of a module. Netmap needs \
    drivers of its own, Netperf is not in this distribution, and DPDK's sender (testpmd) sends flat out alone; make bench has it.";

fn tools() -> Chapter {
    let module = Path::new("/proc/net/pktgen").exists();
    let pktgen = match module {
        true => {
            "This kernel has pktgen loaded; its script of commands is not part of this study, which compares programs."
        }
        false => {
            "This kernel has no pktgen, and loads no modules: it is not measured. What is here is compared."
        }
    };
    let blocks = [TOOLS, pktgen].map(|text| Block::Text(text.to_owned())).into();
    Chapter { title: "What is compared".to_owned(), blocks }
}

/// Measures and writes down.
pub fn study(bench: &mut Bench, heading: &Heading) -> Study {
    let mut chapters = vec![tools()];
    chapters.extend(rates::chapters(bench));
    chapters.push(latency::chapter(bench));
    let shorter = format!(
        "The study measured a minute each time. Here it is {:.1} s in each of {} (half a second in searches, and at least {} at the \
         lowest rate): make bench-pktgen ARGS='--time 50s' measures nearly as long.",
        bench.time.as_secs_f64(),
        counted(bench.rounds as u64, "round"),
        "3 s"
    );
    if let Some(chapter) = chapters.first_mut() {
        chapter.blocks.push(Block::Text(shorter));
    }
    let summary = chapters.iter().flat_map(says).collect();
    heading.study(bench, TITLE, summary, chapters)
}

/// What the first pictures of a chapter show.
fn says(chapter: &Chapter) -> Vec<String> {
    let pictures = chapter.blocks.iter().find_map(|block| match block {
        Block::Pictures(all) => Some(all),
        _ => None,
    });
    let told = |(picture, says): &(Picture, String)| format!("{}. {says}", picture.title);
    pictures.map(|all| all.iter().map(told).collect()).unwrap_or_default()
}
