use super::*;
use crate::assemble::assemble;
use crate::format::Colour;
use crate::golden::{VOICE, both, facts, golden};
use crate::model::{End, SessionEnd, SessionRates, SessionReport};

/// Runs of one flow whose median delay and loss are these.
fn runs(values: &[(i64, f64)]) -> Vec<Report> {
    let (sender, receiver) = both(&[VOICE]);
    let one = assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver));
    let run = |(delay, loss): &(i64, f64)| {
        let mut run = one.clone();
        let received = run.total.received.as_mut().unwrap();
        received.one_way_delay_ns.as_mut().unwrap().percentiles.p50 = Some(*delay);
        run.total.loss.as_mut().unwrap().ratio = Some(*loss);
        run
    };
    values.iter().map(run).collect()
}

const OLD: [(i64, f64); 6] =
    [(100_000, 0.0), (101_000, 0.0), (99_000, 0.0), (100_500, 0.0), (99_500, 0.0), (100_200, 0.0)];
const SLOWER: [(i64, f64); 6] = [
    (110_000, 0.0),
    (111_000, 0.0),
    (109_000, 0.0),
    (110_500, 0.0),
    (109_500, 0.0),
    (112_000, 0.0),
];

fn options(threshold: Option<f64>) -> CompareOptions {
    CompareOptions { wirebeat_version: "0.1.0".to_owned(), threshold, metrics: Vec::new() }
}

fn outcome(changes: &Changes, metric: &str) -> ChangeOutcome {
    changes.metrics.iter().find(|one| one.metric == metric).unwrap().outcome
}

#[test]
fn a_change_beyond_noise_is_found_and_fails_by_the_threshold() {
    let (old, new) = (runs(&OLD), runs(&SLOWER));
    let worse = compare(&old, &new, &options(None)).unwrap();
    assert_eq!(outcome(&worse, "delay.p50"), ChangeOutcome::Worse);
    assert_eq!(outcome(&worse, "loss"), ChangeOutcome::Same);
    assert_eq!((worse.verdict, worse.exit_code), (CompareVerdict::Changed, 0));
    assert!(worse.text(Rendering::default()).starts_with("CHANGED  "));
    let unchanged = compare(&old, &runs(&OLD), &options(None)).unwrap();
    assert_eq!((unchanged.verdict, unchanged.exit_code), (CompareVerdict::Unchanged, 0));
    let failed = compare(&old, &new, &options(Some(0.05))).unwrap();
    assert_eq!((failed.verdict, failed.exit_code), (CompareVerdict::Fail, 4));
    let within = compare(&old, &new, &options(Some(0.2))).unwrap();
    assert_eq!((within.verdict, within.exit_code), (CompareVerdict::Pass, 0));
    let better = compare(&new, &old, &options(Some(0.05))).unwrap();
    assert_eq!(outcome(&better, "delay.p50"), ChangeOutcome::Better);
    assert_eq!(better.exit_code, 0);
    golden("tests/golden/compare.txt", &failed.text(Rendering::default()));
    assert!(
        failed.text(Rendering { colour: Colour::Ansi, ..Rendering::default() }).contains("\x1b[")
    );
}

/// A build server shows which metric failed, and a spreadsheet has them all.
#[test]
fn a_comparison_has_cases_and_rows() {
    let (old, new) = (runs(&OLD), runs(&SLOWER));
    let failed = compare(&old, &new, &options(Some(0.05))).unwrap();
    let cases = failed.junit().unwrap();
    golden("tests/golden/compare.xml", &cases);
    assert!(cases.contains("failures=\"1\" errors=\"0\""), "{cases}");
    let rows = failed.csv().unwrap();
    golden("tests/golden/compare.csv", &rows);
    assert_eq!(rows.lines().count(), failed.metrics.len() + 1);
    // a question without a threshold fails nothing, and one that cannot be answered fails with it
    let asked = compare(&old, &new, &options(None)).unwrap();
    assert!(asked.junit().unwrap().contains("failures=\"0\" errors=\"0\""));
    let few = compare(&old[..2], &new[..2], &options(Some(0.05))).unwrap();
    let few = (few.metrics.len() + 1, few.junit().unwrap());
    assert!(few.1.contains(&format!("failures=\"{}\"", few.0)), "{}", few.1);
    let undecided = compare(&old[..2], &new[..2], &options(None)).unwrap().junit().unwrap();
    assert!(undecided.contains("skipped=\"1\" failures=\"0\""), "{undecided}");
}

/// Names of flows come from users.
#[test]
fn names_in_cases_and_rows_are_inert() {
    let mut failed = compare(&runs(&OLD), &runs(&SLOWER), &options(Some(0.05))).unwrap();
    for metric in &mut failed.metrics {
        metric.of = "=1+1,\"</testcase>\u{1b}[31m\n".to_owned();
    }
    let (cases, rows) = (failed.junit().unwrap(), failed.csv().unwrap());
    assert!(!cases.contains("</testcase>\u{1b}") && !cases.contains('\u{1b}'), "{cases}");
    assert!(!rows.contains('\u{1b}') && !rows.contains(",=1+1"), "{rows}");
    assert_eq!(rows.lines().count(), failed.metrics.len() + 1);
}

#[test]
fn loss_from_none_to_some_fails_whatever_the_threshold() {
    let lossy: Vec<(i64, f64)> = OLD.iter().map(|(delay, _)| (*delay, 0.001)).collect();
    let changes = compare(&runs(&OLD), &runs(&lossy), &options(Some(10.0))).unwrap();
    assert_eq!(outcome(&changes, "loss"), ChangeOutcome::Fails);
}

/// "None of 0 metrics changed" where nothing arrived any more.
#[test]
fn nothing_that_arrives_is_a_rate_of_nothing() {
    let mut dark = runs(&OLD);
    for run in &mut dark {
        let received = run.total.received.as_mut().unwrap();
        (received.rates, received.received.frames) = (None, 0);
        received.one_way_delay_ns = None;
    }
    let only =
        |name: &str| CompareOptions { metrics: vec![name.to_owned()], ..options(Some(0.05)) };
    let changes = compare(&runs(&OLD), &dark, &only("rate.received")).unwrap();
    assert_eq!((changes.verdict, changes.metrics[0].new_mean), (CompareVerdict::Fail, 0.0));
    let all = compare(&runs(&OLD), &dark, &options(Some(0.05))).unwrap();
    assert_eq!(outcome(&all, "rate.received"), ChangeOutcome::Fails);
    assert!(
        all.notes.iter().any(|note| note.contains("some runs have delay.p50")),
        "{:?}",
        all.notes
    );
    let delay = compare(&runs(&OLD), &dark, &only("delay.p50")).unwrap();
    assert_eq!(delay.verdict, CompareVerdict::Undecided);
    assert!(!delay.notes.iter().any(|note| note.contains("no run has")), "{:?}", delay.notes);
}

#[test]
fn fewer_than_five_runs_a_side_give_no_verdict() {
    let changes = compare(&runs(&OLD), &runs(&SLOWER[..4]), &options(Some(0.01))).unwrap();
    assert_eq!((changes.verdict, changes.exit_code), (CompareVerdict::Undecided, 4));
    assert!(changes.metrics.iter().all(|metric| metric.outcome == ChangeOutcome::Undecided));
    let asked = compare(&runs(&OLD[..1]), &runs(&SLOWER[..1]), &options(None)).unwrap();
    assert_eq!(asked.exit_code, 0);
    assert!(asked.text(Rendering::default()).starts_with("NO VERDICT  "));
}

/// A run whose bulk data goes from the clients to the servers, by what the report says of both ends.
fn bulk(clients: SessionRates, servers: Option<(&str, f64)>) -> Report {
    let mut run = runs(&OLD[..1]).remove(0);
    let client = SessionReport {
        name: "iperf3".to_owned(),
        rates: Some(clients),
        ..SessionReport::default()
    };
    let server = servers.map(|(name, goodput)| SessionReport {
        name: name.to_owned(),
        end: SessionEnd::Server,
        rates: Some(SessionRates { goodput_bits_per_second: goodput, ..SessionRates::default() }),
        ..SessionReport::default()
    });
    run.sessions = [Some(client), server].into_iter().flatten().collect();
    run
}

/// It was what the clients received: 0 where they send, so that a gate on the throughput was open whatever happened.
#[test]
fn goodput_is_what_either_end_delivered() {
    let sent = SessionRates { acked_bits_per_second: 7e9, ..SessionRates::default() };
    let received = SessionRates { goodput_bits_per_second: 1e9, ..sent };
    for (run, goodput) in [
        (bulk(sent, Some(("iperf3", 8e9))), Some(8e9)),
        (bulk(sent, Some(("iperf3, as the other end says", 8e9))), Some(8e9)),
        (bulk(received, Some(("iperf3", 8e9))), Some(9e9)),
        (bulk(sent, Some(("another", 8e9))), Some(7e9)),
        (bulk(received, None), Some(1e9)),
        // nothing was measured, which is not compared
        (bulk(SessionRates::default(), None), None),
    ] {
        let runs = [run.clone(), run];
        let changes = compare(&runs, &runs, &options(None)).unwrap();
        let found = changes.metrics.iter().find(|one| one.metric == "rate.goodput");
        assert_eq!(found.map(|one| one.new_mean), goodput);
    }
}

#[test]
fn a_run_that_counts_twice_and_one_that_was_stopped_are_told() {
    let (old, mut new) = (runs(&OLD), runs(&SLOWER));
    let told = |new: &[Report]| compare(&old, new, &options(None)).unwrap().notes;
    assert_eq!(told(&new), Vec::<String>::new());
    new[1] = new[0].clone();
    assert!(told(&new)[0].contains("counts twice"), "{:?}", told(&new));
    new[1] = old[2].clone();
    assert!(told(&new)[0].contains("counts twice"), "{:?}", told(&new));
    new[1] = runs(&SLOWER).remove(1);
    new[1].end = End::Stopped { signal: "SIGINT".to_owned() };
    assert!(told(&new)[0].starts_with("0 of before and 1 of now"), "{:?}", told(&new));
}

/// Of many metrics at five runs a side, none can be told from chance: that is said, and not taken for the same.
#[test]
fn too_few_runs_for_so_many_metrics_are_told() {
    // six metrics of flows, and one of sessions of which none ended in order
    let mut group = SessionReport { name: "web".to_owned(), ..SessionReport::default() };
    group.starts.opened = 3;
    let with_sessions = |values: &[(i64, f64)]| {
        let mut runs = runs(values);
        runs.iter_mut().for_each(|run| run.sessions = vec![group.clone()]);
        runs
    };
    let (old, new) = (with_sessions(&OLD[..5]), with_sessions(&SLOWER[..5]));
    let changes = compare(&old, &new, &options(None)).unwrap();
    assert_eq!(changes.metrics.len(), 7, "{changes:?}");
    assert_eq!(outcome(&changes, "delay.p50"), ChangeOutcome::Undecided);
    assert_eq!(changes.verdict, CompareVerdict::Undecided);
    assert!(changes.notes.iter().any(|note| note.contains("--metric")), "{:?}", changes.notes);
    let chosen = CompareOptions { metrics: vec!["delay.p50".to_owned()], ..options(Some(0.05)) };
    let changes = compare(&runs(&OLD[..5]), &runs(&SLOWER[..5]), &chosen).unwrap();
    assert_eq!((changes.metrics.len(), changes.exit_code), (1, 4));
    assert!(changes.notes.is_empty());
}

#[test]
fn a_run_that_did_not_end_well_is_not_compared() {
    let mut new = runs(&SLOWER);
    new[2].end = End::InterfaceGone { interface: "eth1".to_owned() };
    new[2].verdict = Verdict::Unfinished;
    assert_eq!(compare(&runs(&OLD), &new, &options(None)), Err(8));
}

#[test]
fn other_scenarios_and_versions_are_noted() {
    let mut new = runs(&SLOWER);
    new[0].scenario = None;
    new[0].wirebeat_version = "9.9.9".to_owned();
    let mut old = runs(&OLD);
    old.iter_mut().for_each(|run| run.scenario = crate::model::Json::parse("{}"));
    let changes = compare(&old, &new, &options(None)).unwrap();
    assert_eq!(changes.notes.len(), 2, "{:?}", changes.notes);
}

/// Eight metrics of five runs a side cannot fail, however much they change: that is no PASS.
#[test]
fn more_metrics_than_runs_can_tell_apart_give_no_verdict() {
    let (old, new) = (runs(&OLD[..5]), runs(&SLOWER[..5]));
    let mut many = options(Some(0.05));
    let all = compare(&old, &new, &many).unwrap();
    assert!(all.metrics.len() <= 6 && all.verdict == CompareVerdict::Fail, "{all:?}");
    many.metrics = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    many.metrics.push(format!("{}:delay.p50", old[0].flows[0].name));
    many.metrics.push(format!("{}:loss", old[0].flows[0].name));
    let more = compare(&old, &new, &many).unwrap();
    assert!(more.metrics.len() > 6, "{more:?}");
    assert_eq!((more.verdict, more.exit_code, more.runs_needed), (CompareVerdict::Undecided, 4, 6));
    assert!(more.text(Rendering::default()).contains("fewer than 6 runs"), "{more:?}");
}

#[test]
fn a_flow_is_compared_by_itself_where_it_is_asked_for() {
    let (old, mut new) = (runs(&OLD), runs(&OLD));
    for run in &mut new {
        let received = run.flows[0].received.as_mut().unwrap();
        received.one_way_delay_ns.as_mut().unwrap().percentiles.p50 = Some(900_000_000);
    }
    let name = old[0].flows[0].name.clone();
    let of = |metric: String| {
        compare(&old, &new, &CompareOptions { metrics: vec![metric], ..options(Some(0.05)) })
            .unwrap()
    };
    assert_eq!(of("delay.p50".to_owned()).verdict, CompareVerdict::Pass);
    let changes = of(format!("{name}:delay.p50"));
    assert_eq!((changes.verdict, changes.metrics.len()), (CompareVerdict::Fail, 1));
    assert_eq!(changes.metrics[0].of, name);
    let unknown = of("nobody:delay.p50".to_owned());
    assert_eq!((unknown.verdict, unknown.exit_code), (CompareVerdict::Undecided, 4));
}
