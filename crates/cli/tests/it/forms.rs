//! What is written beside the text, read by tools that others made: JSON by a validator of JSON Schema, JUnit by a reader of test results,
//! CSV by the reader of Python. Whatever names are in it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wirebeat_testbed::{Capability, require};

use crate::{Scratch, command, run};

/// Debian's own, for which its packages `python3-jsonschema`, `python3-junitparser` and `python3-yaml` are.
const PYTHON: &str = "/usr/bin/python3";

const PACKET: &str = "packet: [ { ipv4: { destination: 10.0.0.2 } }, { udp: {} } ]";

/// A scenario in memory whose names are made to be taken for something else.
fn hostile(scratch: &Scratch, name: &str, expect: &str) -> String {
    let expect = match expect {
        "" => String::new(),
        all => format!("expect: [ {all} ],"),
    };
    let text = format!(
        "ports: {{ a: {{ engine: loopback }}, b: {{ engine: loopback }} }}\n\
         variables: {{ rate: 1kpps }}\n\
         flows:\n  '=1+1': {{ from: a, to: b, rate: '${{rate}}', {expect} {PACKET} }}\n  \
         \"</script>, 'a'; \\\"b\\\" ]]>\": {{ from: a, to: b, rate: 2kpps, {expect} {PACKET} }}\n\
         run: {{ time: 500ms }}\n"
    );
    scratch.file(name, text.as_bytes())
}

/// Sessions in memory.
fn sessions(scratch: &Scratch) -> String {
    let text = "ports: { a: { engine: loopback }, b: { engine: loopback } }\n\
                sessions:\n  web: { from: a, to: b, stack: own, clients: { addresses: 10.0.1.0/24 }, servers: { addresses: 10.0.2.9, ports: 80 }, \
                program: { request-response: { request: 100B, response: 100B } }, rate: 50/s }\n\
                run: { time: 1s }\n";
    scratch.file("sessions.yaml", text.as_bytes())
}

/// Runs a program of Python's with arguments; what it printed.
fn python(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(PYTHON).args(["-c", program]).args(arguments).output();
    let ended = ended.unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn json_is_what_its_schema_says() {
    require!(Capability::PythonModule("jsonschema"));
    let scratch = Scratch::new("forms-json");
    let (flows, sessions) =
        (hostile(&scratch, "hostile.yaml", "'loss == 0%', 'delay.p50 < 1ns'"), sessions(&scratch));
    let lines = [
        ("flows", format!("run {flows}"), 4),
        ("intervals", format!("run {flows} --interval 100ms --histograms"), 4),
        ("sessions", format!("run {sessions} --interval 200ms"), 0),
        ("repeated", format!("run {flows} --repeat 2"), 4),
        ("again", format!("run {flows} --repeat 2"), 4),
        (
            "compare",
            format!("compare {} -- {}", scratch.path("repeated"), scratch.path("again")),
            0,
        ),
        ("sweep", format!("sweep {flows} --over rate=1kpps,2kpps"), 4),
        (
            "rfc2544",
            format!(
                "test rfc2544 {flows} --quick --trial 100ms --max-rate 5kpps --sizes 64B,9000B --measure all --latency-time 100ms \
                 --burst-time 10ms --overload-time 100ms --recovery-time 100ms --repeat 2"
            ),
            0,
        ),
        ("y1564", format!("test y1564 {flows} --step-time 100ms --performance-time 200ms"), 4),
        ("soak", format!("test soak {flows} --time 2s"), 4),
        ("error", "run /nowhere.yaml".to_owned(), 2),
    ];
    let mut files = Vec::new();
    for (name, line, code) in lines {
        let path = scratch.path(name);
        // flags of 'compare' stand before the files
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let place = if name == "compare" { 1 } else { words.len() };
        words.splice(place..place, ["--json", &path]);
        let ended = run(&words);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        files.push(path);
    }
    // a result that is kept for going on has the same form
    let kept = scratch.path("kept.json");
    let line = format!(
        "test rfc2544 {flows} --quick --trial 100ms --max-rate 1kpps --sizes 64B --resume {kept}"
    );
    assert_eq!(run(&line.split_whitespace().collect::<Vec<_>>()).code, 0);
    files.push(kept);
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");
    let validate = "
import json, jsonschema, sys
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    errors = [error.message[:300] for error in validator.iter_errors(json.load(open(path)))]
    assert not errors, (path, errors)
wrong = json.load(open(sys.argv[2]))
wrong['flows'][0]['sent'] = 7
assert list(validator.iter_errors(wrong)), 'the schema takes anything'
print(len(sys.argv) - 2)
";
    let arguments: Vec<&str> =
        [schema].into_iter().chain(files.iter().map(String::as_str)).collect();
    assert_eq!(python(validate, &arguments).trim(), files.len().to_string());
}

#[test]
fn lines_of_statistics_are_what_their_schema_says() {
    require!(Capability::PythonModule("jsonschema"));
    let scratch = Scratch::new("forms-stats");
    let (socket, schema) =
        (scratch.path("ctl"), concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stats.schema.json"));
    let control = format!("--control={socket}");
    let flags = ["--engine", "socket", "--rate", "100pps", "--time", "10s", "--interval", "200ms"];
    let line = [&["send", "--to", "127.0.0.1:9"], &flags[..], &[&control]].concat();
    let mut sender = command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let lines = loop {
        let told = run(&["ctl", &control, "stats", "--last", "5", "--json-lines"]);
        if told.code == 0 && told.out.lines().count() > 1 {
            break told.out;
        }
        assert!(begun.elapsed() < Duration::from_secs(8), "{told:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    sender.kill().unwrap();
    sender.wait().unwrap();
    let file = scratch.file("stats.jsonl", lines.as_bytes());
    let validate = "
import json, jsonschema, sys
validator = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))
lines = [json.loads(line) for line in open(sys.argv[2])]
errors = [error.message[:300] for line in lines for error in validator.iter_errors(line)]
assert not errors, errors
assert list(validator.iter_errors({'interval': 7})), 'the schema takes anything'
print(len(lines))
";
    assert_eq!(python(validate, &[schema, &file]).trim(), lines.lines().count().to_string());
}

#[test]
fn the_schema_of_scenarios_takes_every_example() {
    require!(Capability::PythonModule("jsonschema"), Capability::PythonModule("yaml"));
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    // YAML 1.2: dates and 'on' are text
    let validate = "
import glob, json, jsonschema, re, sys, yaml
class Loader(yaml.SafeLoader): pass
Loader.yaml_implicit_resolvers = {
    first: [(tag, of) for tag, of in all if tag not in ('tag:yaml.org,2002:timestamp', 'tag:yaml.org,2002:int', 'tag:yaml.org,2002:float', 'tag:yaml.org,2002:bool')]
    for first, all in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Loader.add_implicit_resolver('tag:yaml.org,2002:int', re.compile(r'^-?(0|[1-9][0-9]*)$'), list('-0123456789'))
Loader.add_implicit_resolver('tag:yaml.org,2002:float', re.compile(r'^-?[0-9]+\\.[0-9]+$'), list('-0123456789'))
Loader.add_implicit_resolver('tag:yaml.org,2002:bool', re.compile('^(true|false)$'), list('tf'))
schema = json.load(open(sys.argv[1] + '/docs/scenario.schema.json'))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
files = sorted(glob.glob(sys.argv[1] + '/examples/*.yaml'))
bad = []
for path in files:
    text = open(path).read()
    # a variable stands for its text, wherever it is
    block = re.search(r'^variables:(.*(?:\\n .*)*)', text, re.M)
    values = dict(re.findall(r'([\\w-]+): *([^,{}\\n]+?) *(?=[,}}\\n])', block[1] + '\\n')) if block else {}
    text = re.sub(r'\\$\\{([\\w-]+)\\}', lambda of: values[of[1]].strip('\"\\''), text)
    document = yaml.load(text, Loader)
    bad += [(path, list(error.path), error.message[:200]) for error in validator.iter_errors(document)]
assert not bad, bad
assert list(validator.iter_errors({'ports': 7})), 'the schema takes anything'
print(len(files))
";
    let count: usize = python(validate, &[root]).trim().parse().unwrap();
    assert!(count > 40, "{count}");
}

/// How many suites, cases, failures and errors a file in JUnit XML has, by `junitparser`, whose own counts are those of the file.
pub fn in_junit(path: &str) -> Vec<usize> {
    let read = "
import junitparser, sys
suites = junitparser.JUnitXml.fromfile(sys.argv[1])
results = [type(result).__name__ for suite in suites for case in suite for result in case.result]
suites.update_statistics()
names = [case.name for suite in suites for case in suite]
assert all(names)
told = [(suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites]
for suite in suites:
    before = (suite.tests, suite.failures, suite.errors, suite.skipped)
    suite.update_statistics()
    assert before == (suite.tests, suite.failures, suite.errors, suite.skipped), before
print(len(list(suites)), len(names), results.count('Failure'), results.count('Error'))
";
    let told = python(read, &[path]);
    told.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

#[test]
fn junit_is_read_by_a_reader_of_test_results() {
    require!(Capability::PythonModule("junitparser"));
    let scratch = Scratch::new("forms-junit");
    let file =
        hostile(&scratch, "hostile.yaml", "'loss == 0%', 'delay.p50 < 1ns', 'delay.p99.9 < 1s'");
    let services = hostile(&scratch, "services.yaml", "'loss == 0%'");
    let junit = |line: String, code: i32| {
        let path = scratch.path("runs.xml");
        let words: Vec<&str> = line.split_whitespace().chain(["--junit", &path]).collect();
        let ended = run(&words);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        in_junit(&path)
    };
    let told = junit(format!("run {file}"), 4);
    // the run, and three of each flow, of which one is not met and one not known: too few frames
    assert_eq!(told, [1, 7, 4, 0]);
    let told = junit(format!("run {services} --repeat 3"), 0);
    assert_eq!((told[0], told[2], told[3]), (3, 0, 0), "{told:?}");
    let told = junit(format!("sweep {services} --over rate=1kpps,2kpps"), 0);
    assert_eq!((told[2], told[3]), (0, 0), "{told:?}");
    let told = junit(
        format!(
            "test rfc2544 {services} --quick --trial 100ms --max-rate 1kpps --sizes 64B --at-least 1kpps"
        ),
        0,
    );
    assert_eq!((told[0], told[2]), (1, 0), "{told:?}");
}

#[test]
fn csv_is_read_row_by_row_with_every_column() {
    require!(Capability::Program(PYTHON));
    let scratch = Scratch::new("forms-csv");
    let (flows, sessions) = (hostile(&scratch, "hostile.yaml", ""), sessions(&scratch));
    let read = "
import csv, sys
with open(sys.argv[1], newline='') as file:
    rows = list(csv.reader(file, strict=True))
head, rows = rows[0], rows[1:]
assert len(set(head)) == len(head), head
assert rows and all(len(row) == len(head) for row in rows), [len(row) for row in rows]
for row in rows:
    for name, cell in zip(head, row):
        # what a spreadsheet would take for a formula
        assert not cell or cell[0] not in '=+@\\t\\r' , (name, cell)
        if name.endswith(('_ns', '_frames', '_bytes', '_ratio', '_per_second')) and cell:
            float(cell)
print(sorted({row[head.index('name')] for row in rows}))
";
    for (line, code) in [
        (format!("run {flows} --interval 100ms"), 0),
        (format!("run {sessions}"), 0),
        (format!("sweep {flows} --over rate=1kpps,2kpps"), 0),
        (
            format!(
                "test rfc2544 {flows} --quick --trial 100ms --max-rate 1kpps --sizes 64B,9000B --repeat 2"
            ),
            0,
        ),
    ] {
        let path = scratch.path("rows.csv");
        let words: Vec<&str> = line.split_whitespace().chain(["--csv", &path]).collect();
        let ended = run(&words);
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        let names = python(read, &[&path]);
        if line.starts_with("run") && line.contains("hostile") {
            assert!(names.contains("'=1+1") && names.contains("</script>"), "{names}");
        }
        assert!(fs::read(&path).unwrap().iter().all(|byte| *byte != 0x1b), "{line}: an escape");
    }
}
