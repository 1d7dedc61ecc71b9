//! A test as rows: CSV with a row for each trial and each result, Markdown with the results.

use super::{TestReport, text};
use crate::csv::field;
use crate::human;
use crate::markdown::{MARK, escape, rows};

/// What the head of a file begins with: as that of reports, by which a file is known as ours.
const HEAD: &str = "kind,name,frame_bytes,goal_loss_ratio,outcome,intended_frames_per_second,offered_frames_per_second,\
upper_frames_per_second,trial_ns,sent_frames,received_frames,lost_frames,loss_ratio,duplicate_frames,reordered_frames,\
delay_p50_ns,delay_p99_ns,lateness_p99_ns,burst_frames,tagged_ns,doubt,recovery_least_ns,recovery_most_ns,silence_ns,repeated\r\n";

/// How many columns there are.
const CELLS: usize = 25;

/// Writes the rows of a test. `offered_frames_per_second` of a result is the throughput.
pub(super) fn csv(test: &TestReport) -> String {
    let mut out = HEAD.to_owned();
    let mut row = |cells: [String; CELLS]| out += &(cells.join(",") + "\r\n");
    let real = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let whole = |value: Option<i64>| value.map_or_else(String::new, |value| value.to_string());
    for size in &test.sizes {
        let begin = |kind: &str| {
            let mut cells: [String; CELLS] = Default::default();
            cells[0] = kind.to_owned();
            cells[1] = field(&size.size);
            cells[2] = real(size.frame_bytes);
            cells
        };
        if let Some(why) = &size.skipped {
            let mut cells = begin("throughput");
            (cells[4], cells[20]) = ("left_out".to_owned(), field(why));
            row(cells);
        }
        for of in &size.throughput {
            let mut cells = begin("throughput");
            cells[3] = of.loss_ratio.to_string();
            cells[4] = field(&serde_json::to_value(of.outcome).map_or_else(
                |_| String::new(),
                |word| word.as_str().unwrap_or_default().to_owned(),
            ));
            cells[6] = real(of.lower);
            cells[7] = real(of.upper);
            cells[8] = of.trial_ns.to_string();
            cells[9] = of.frames.to_string();
            row(cells);
        }
        if let Some(of) = &size.latency {
            for tagged in &of.tagged_ns {
                let mut cells = begin("latency");
                cells[6] = of.load.to_string();
                cells[8] = of.trial_ns.to_string();
                cells[19] = tagged.to_string();
                row(cells);
            }
        }
        if let Some(of) = &size.back_to_back {
            for burst in &of.bursts {
                let mut cells = begin("back-to-back");
                cells[6] = of.burst_rate.to_string();
                cells[18] = burst.to_string();
                row(cells);
            }
        }
        if let Some(of) = &size.recovery {
            for time in &of.times {
                let mut cells = begin("recovery");
                cells[6] = of.overload.to_string();
                cells[8] = of.overload_ns.to_string();
                cells[21] = time.least_ns.to_string();
                // no bound where it was not watched for long enough
                cells[22] = if time.recovered { time.most_ns.to_string() } else { String::new() };
                row(cells);
            }
        }
        if let Some(of) = &size.reset {
            let mut cells = begin("reset");
            cells[6] = of.load.to_string();
            cells[8] = of.time_ns.to_string();
            let silence = of.silence_ns.filter(|_| of.returned);
            cells[23] = silence.map_or_else(String::new, |ns| ns.to_string());
            row(cells);
        }
        for trial in &size.trials {
            let mut cells = begin("trial");
            cells[4] = field(&trial.purpose);
            cells[5] = trial.intended.to_string();
            cells[6] = trial.offered.to_string();
            cells[8] = trial.trial_ns.to_string();
            cells[9] = trial.sent.to_string();
            cells[10] = trial.received.to_string();
            cells[11] = trial.lost.to_string();
            cells[12] = trial.loss_ratio.to_string();
            cells[13] = trial.duplicates.to_string();
            cells[14] = trial.reordered.to_string();
            cells[15] = whole(trial.delay_p50_ns);
            cells[16] = whole(trial.delay_p99_ns);
            cells[17] = whole(trial.lateness_p99_ns);
            cells[24] = trial.repeated.to_string();
            cells[20] = field(trial.doubt.as_deref().unwrap_or_default());
            row(cells);
        }
    }
    out
}

/// Writes the results of a test.
pub(super) fn markdown(test: &TestReport) -> String {
    let (title, started) = (escape(&test.test), escape(&test.started));
    let verdict = escape(text::verdict(test).trim_end());
    let mut out = format!("{MARK} {title}\n\n{started}. {verdict}\n");
    let throughput = test.sizes.iter().flat_map(|size| {
        size.throughput.iter().map(|of| {
            vec![
                size.size.clone(),
                text::tolerance(of.loss_ratio),
                text::rate(of),
                of.line_bits_per_second.map_or_else(|| "-".to_owned(), human::bit_rate),
                of.of_max.map_or_else(|| "-".to_owned(), human::percent),
                text::remark(of).to_owned(),
            ]
        })
    });
    let heads = ["frame", "loss allowed", "throughput", "on the line", "of max", ""];
    out += &rows("Throughput", &heads, throughput.collect());
    let latency = test.sizes.iter().filter_map(|size| {
        let of = size.latency.as_ref()?;
        let p99 = of.delay_ns.last().and_then(|stats| stats.percentiles.p99);
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), human::time);
        let p99 = time(p99.map(|ns| ns as f64));
        Some(vec![size.size.clone(), human::fine_frame_rate(of.load), time(of.tagged_mean_ns), p99])
    });
    out += &rows("Latency", &["frame", "load", "tagged frame", "p99"], latency.collect());
    let loss = test.sizes.iter().flat_map(|size| {
        size.loss_rate.iter().map(|at| {
            let load = human::fine_frame_rate(at.load);
            vec![size.size.clone(), load, human::percent(at.of_max), human::percent(at.loss_ratio)]
        })
    });
    out += &rows("Frame loss rate", &["frame", "load", "of max", "loss"], loss.collect());
    let bursts = test.sizes.iter().filter_map(|size| {
        let of = size.back_to_back.as_ref()?;
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), human::time);
        Some(vec![size.size.clone(), text::burst(of), time(of.corrected_buffer_ns)])
    });
    let heads = ["frame", "longest burst", "corrected buffer"];
    out += &rows("Back-to-back frames", &heads, bursts.collect());
    let recoveries = test.sizes.iter().filter_map(|size| {
        let of = size.recovery.as_ref()?;
        let overload = human::fine_frame_rate(of.overload);
        Some(vec![size.size.clone(), overload, text::recovery_time(of)])
    });
    out += &rows("System recovery", &["frame", "overload", "recovery"], recoveries.collect());
    let resets = test.sizes.iter().filter_map(|size| {
        let of = size.reset.as_ref()?;
        Some(vec![size.size.clone(), human::fine_frame_rate(of.load), text::silence(of)])
    });
    out += &rows("Reset", &["frame", "load", "longest silence"], resets.collect());
    for (title, notes) in
        [("Findings", &test.findings), ("Not as the standard has it", &test.deviations)]
    {
        if !notes.is_empty() {
            let lines: String = notes.iter().map(|note| format!("- {}\n", escape(note))).collect();
            out += &format!("\n## {title}\n\n{lines}");
        }
    }
    out
}
