//! JUnit XML, which build servers read: a case for each expectation, and one that the run is done and its counters are consistent.
//!
//! Names come from users and peers: what XML cannot have in a text is replaced (`printable`), before the library escapes the rest.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as JUnit, TestCase, TestCaseStatus, TestSuite};

use crate::document::ErrorReport;
use crate::human;
use crate::model::{Expected, FindingKind, Report, Verdict};
use crate::test_report::{SearchOutcome, TestReport};

/// What every such file has in its first 64 bytes.
pub const MARK: &str = "<testsuites name=\"wire";

/// Runs, each with its name; without one it is called by its command line.
pub fn reports<'a>(runs: impl IntoIterator<Item = (&'a str, &'a Report)>) -> String {
    write(runs.into_iter().map(|(name, report)| match name {
        "" => suite(&suite_name(&report.command_line), report),
        name => suite(name, report),
    }))
}

/// The same of runs that belong together; `missing` says how many of them there are, where some are not.
pub fn runs<'a>(
    runs: impl IntoIterator<Item = (&'a str, &'a Report)>,
    missing: Option<&str>,
) -> String {
    let all = missing.map(|why| {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(printable(why)).set_type("unfinished");
        let mut case = TestCase::new("every run was made", status);
        case.set_classname("run");
        let mut suite = TestSuite::new("all runs");
        suite.add_test_case(case);
        suite
    });
    write(runs.into_iter().map(|(name, report)| suite(name, report)).chain(all))
}

fn suite(name: &str, report: &Report) -> TestSuite {
    let mut suite = TestSuite::new(printable(name));
    suite.set_time(Duration::from_nanos(report.duration_ns));
    suite.add_property(("started", printable(&report.started).as_str()));
    suite.add_property(("wirebeat_version", printable(&report.wirebeat_version).as_str()));
    let mut run = TestCase::new("the run is done and its counters are consistent", done(report));
    run.set_classname("run").set_time(Duration::from_nanos(report.duration_ns));
    suite.add_test_case(run);
    for expected in report.expectations() {
        suite.add_test_case(case(&expected));
    }
    let findings: Vec<String> =
        report.findings.iter().map(|finding| printable(&finding.message)).collect();
    suite.set_system_out(findings.join("\n"));
    suite
}

/// A standard test: a case that it is complete, and one for each size with the throughput that was measured.
pub fn test(of: &TestReport) -> String {
    let mut suite = TestSuite::new(printable(&suite_name(&of.command_line)));
    suite.set_time(Duration::from_nanos(of.duration_ns));
    suite.add_property(("started", printable(&of.started).as_str()));
    suite.add_property(("wirebeat_version", printable(&of.wirebeat_version).as_str()));
    if let Some(title) = &of.title {
        suite.add_property(("title", printable(title).as_str()));
    }
    let complete = match of.verdict {
        Verdict::Done | Verdict::Unmet => TestCaseStatus::success(),
        _ => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
            status.set_message(printable(&human::end(&of.end))).set_type("unfinished");
            status
        }
    };
    let mut run = TestCase::new("the test is complete", complete);
    run.set_classname("test").set_time(Duration::from_nanos(of.duration_ns));
    suite.add_test_case(run);
    for size in &of.sizes {
        if let Some(why) = &size.skipped {
            let mut status = TestCaseStatus::skipped();
            status.set_message(printable(why));
            let mut case =
                TestCase::new(printable(&format!("throughput with {}", size.size)), status);
            case.set_classname("throughput");
            suite.add_test_case(case);
            continue;
        }
        if size.throughput.is_empty() && size.met().is_none() {
            continue;
        }
        let lowest = size.throughput.iter().filter_map(|of| of.lower).reduce(f64::min);
        let found = lowest.map_or_else(
            || "no load is borne, or none was measured".to_owned(),
            |lower| {
                let any = |outcome| size.throughput.iter().any(|of| of.outcome == outcome);
                let rate = human::fine_frame_rate(lower);
                let (limited, highest) = (SearchOutcome::AtLeastByTester, SearchOutcome::AtLeast);
                match () {
                    () if any(SearchOutcome::Unfinished) => {
                        format!("the throughput is {rate} so far: the search was cut off")
                    }
                    () if any(limited) => {
                        format!(
                            "the throughput is at least {rate}: the tester could not offer more"
                        )
                    }
                    () if any(SearchOutcome::ByChance) => {
                        format!("nothing was lost at {rate} by chance: the loss does not depend on the load")
                    }
                    () if any(highest) => format!("the throughput is at least {rate}"),
                    () => format!("the throughput is {rate}"),
                }
            },
        );
        let (status, required) = match (size.met(), &of.parameters.required) {
            (Some(false), Some(rate)) => (failure("unmet", &found), format!(" >= {rate}")),
            (Some(true), Some(rate)) => (TestCaseStatus::success(), format!(" >= {rate}")),
            // nothing was required: the case says what was measured
            _ => (TestCaseStatus::success(), String::new()),
        };
        let name = format!("throughput with {}{required}", size.size);
        let mut case = TestCase::new(printable(&name), status);
        case.set_classname("throughput").set_system_out(printable(&found));
        suite.add_test_case(case);
    }
    if !of.findings.is_empty() {
        suite.set_system_out(printable(&of.findings.join("; ")));
    }
    write([suite])
}

/// Why there is no report.
pub fn error(error: &ErrorReport) -> String {
    let mut suite = TestSuite::new(printable(&suite_name(&error.command_line)));
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(printable(&error.error.message)).set_type("not_run");
    let mut run = TestCase::new("the run is done and its counters are consistent", status);
    run.set_classname("run");
    suite.add_test_case(run);
    write([suite])
}

pub(crate) fn write(suites: impl IntoIterator<Item = TestSuite>) -> String {
    let mut junit = JUnit::new("wirebeat");
    junit.add_test_suites(suites);
    // into memory, which does not fail
    junit.to_string().map_or_else(|_| String::new(), |text| text.trim_end().to_owned() + "\n")
}

/// The command line without the program, which tells runs of one build apart.
fn suite_name(command_line: &[String]) -> String {
    match command_line.get(1..) {
        Some(arguments) if !arguments.is_empty() => arguments.join(" "),
        _ => "wirebeat".to_owned(),
    }
}

fn done(report: &Report) -> TestCaseStatus {
    let (kind, of) = match report.verdict {
        Verdict::Done | Verdict::Unmet => return TestCaseStatus::success(),
        Verdict::Unfinished => ("unfinished", FindingKind::Unfinished),
        Verdict::CountersInconsistent => {
            ("counters_inconsistent", FindingKind::CountersInconsistent)
        }
    };
    let finding = report.findings.iter().find(|finding| finding.kind == of);
    let message = finding.map_or_else(|| human::end(&report.end), |of| of.message.clone());
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(printable(&message)).set_type(kind);
    status
}

fn case(expected: &Expected<'_>) -> TestCase {
    let one = expected.expectation;
    let status = match (one.met, &one.undecided) {
        (true, _) => TestCaseStatus::success(),
        (false, Some(_)) => failure("undecided", &one.found()),
        (false, None) => failure("unmet", &one.found()),
    };
    let mut case = TestCase::new(printable(&expected.text()), status);
    case.set_classname(printable(expected.whom()));
    if one.met {
        case.set_system_out(printable(&one.found()));
    }
    case
}

pub(crate) fn failure(kind: &str, message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(printable(message)).set_type(kind.to_owned());
    status
}

/// Without what acts on a terminal, which shows the logs of builds too.
pub(crate) fn printable(text: &str) -> String {
    crate::text::style::clean(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::assemble;
    use crate::document::ErrorBody;
    use crate::golden::{VOICE, both, facts, golden};
    use crate::model::Expectation;

    fn one_flow() -> Report {
        let (sender, receiver) = both(&[VOICE]);
        assemble(facts("wirebeat run voice.yaml"), Some(sender), Some(receiver))
    }

    fn expectation(text: &str, met: bool, undecided: Option<&str>) -> Expectation {
        Expectation {
            text: text.to_owned(),
            measured: "3".to_owned(),
            met,
            undecided: undecided.map(str::to_owned),
            margin: (!met && undecided.is_none()).then(|| "1 too much".to_owned()),
            ..Expectation::default()
        }
    }

    #[test]
    fn an_expectation_is_a_case() {
        let mut of = one_flow();
        of.total.expectations = vec![expectation("lost == 2", false, None)];
        of.flows[0].expectations = vec![
            expectation("lost <= 4", true, None),
            expectation("delay.p99 < 1ms", false, Some("too few")),
        ];
        of.judge();
        let text = reports([("", &of)]);
        assert!(text.contains("tests=\"4\" skipped=\"0\" failures=\"2\" errors=\"0\""), "{text}");
        assert!(text.contains("message=\"measured 3: 1 too much\" type=\"unmet\""), "{text}");
        assert!(text.contains("message=\"measured 3: too few\" type=\"undecided\""), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with(MARK)), "{text}");
        golden("tests/golden/expectations.xml", &text);
    }

    #[test]
    fn a_run_that_did_not_take_place_is_an_error() {
        let body = ErrorBody { message: "no interface 'eth9'".to_owned(), exit_code: 3 };
        let of = ErrorReport::new("0".to_owned(), vec!["wirebeat".to_owned()], body);
        let text = error(&of);
        assert!(text.contains("errors=\"1\"") && text.contains("no interface"), "{text}");
    }

    /// A name may be anything.
    #[test]
    fn names_are_inert() {
        let mut of = one_flow();
        of.flows[0].name = "</testcase><x a=\"'\u{1b}[31m\u{0}\n]]>&\u{fffe}\u{ffff}".to_owned();
        of.flows[0].expectations = vec![expectation("lost <= 4", true, None)];
        let text = reports([("", &of)]);
        assert!(
            !text.contains("<x a") && !text.contains('\u{1b}') && !text.contains('\u{0}'),
            "{text}"
        );
        // no characters of XML 1.0 (§2.2)
        assert!(!text.contains(['\u{fffe}', '\u{ffff}']), "{text}");
    }
}
