//! What files say together, and the places that messages name.

use super::*;

/// The first of `files` with what it includes of the others.
fn read(files: &[(&str, &str)], set: &[(&str, &str)]) -> Result<Scenario, String> {
    let set: Vec<(String, String)> =
        set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut others = |path: &Path| {
        let found = files.iter().find(|(name, _)| plain(Path::new(name)) == plain(path));
        found.map(|(_, text)| (*text).to_owned()).ok_or("no such file".into())
    };
    let reading = Reading { set: &set, read: &mut others };
    let (name, text) = files[0];
    let read = Sources::read(name, text.to_owned(), reading);
    read.map(|(scenario, _)| scenario).map_err(|error| error.to_string())
}

fn error(files: &[(&str, &str)], set: &[(&str, &str)]) -> String {
    read(files, set).expect_err(files[0].1)
}

const PORTS: &str = "ports: { a: {}, b: {} }\nrun: { time: 5s, late: drop }\nseed: 3\n";
const FLOW: &str = "flows: { x: { from: a, to: b } }\n";

#[test]
fn an_including_file_lies_above_what_it_includes() {
    let top = format!("include: lab/ports.yaml\nrun: {{ time: 9s }}\n{FLOW}");
    let scenario = read(&[("s.yaml", &top), ("lab/ports.yaml", PORTS)], &[]).unwrap();
    assert_eq!(scenario.ports.len(), 2);
    assert_eq!(scenario.run.time, Some("9s".parse().unwrap()));
    assert_eq!(scenario.run.late, crate::scenario::LateChoice::Drop);
    assert_eq!(scenario.seed, 3);
}

#[test]
fn of_two_included_files_the_later_one_is_nearer() {
    let files = [
        ("d/s.yaml", "include: [one.yaml, ./sub/two.yaml]\nports: { a: {}, b: {} }\n"),
        ("d/one.yaml", "seed: 1\nrun: { settle: 1s }\nflows: { x: { from: a, to: b } }"),
        ("d/sub/two.yaml", "include: ../three.yaml\nseed: 2\n"),
        ("d/three.yaml", "seed: 4\nflows: { y: { from: b, to: a } }"),
    ];
    let scenario = read(&files, &[]).unwrap();
    assert_eq!(scenario.seed, 2);
    assert_eq!(scenario.flows.keys().collect::<Vec<_>>(), ["x", "y"]);
}

#[test]
fn variables_are_those_of_all_files() {
    let top = "include: common.yaml\nvariables: { rate: 2kpps }\nflows:\n  x: { from: a, to: b, rate: ${rate}, count: ${n}, \
               packet: [ { ipv4: { destination: '${net}.2', ttl: ${n} } }, { udp: {} } ], \
               size: { mix: { ${small}: 7, 1518B: ${n} } }, probe: ${probe} }\n";
    let common = "variables: { rate: 1kpps, net: 10.0.${n}, n: 5, small: 64B, probe: off, engine: pcap }\n\
                  ports: { a: { engine: '${engine}', file: $${n}.pcapng }, b: {} }\n";
    let files = [("s.yaml", top), ("common.yaml", common)];
    let plain = |n: &str, rate: &str| {
        let text = format!(
            "ports: {{ a: {{ engine: pcap, file: '${{n}}.pcapng' }}, b: {{}} }}\nflows:\n  x: {{ from: a, to: b, rate: {rate}, count: {n}, \
             packet: [ {{ ipv4: {{ destination: 10.0.{n}.2, ttl: {n} }} }}, {{ udp: {{}} }} ], \
             size: {{ mix: {{ 64B: 7, 1518B: {n} }} }}, probe: off }}\n"
        );
        text.replace("'${n}.pcapng'", "'$${n}.pcapng'")
    };
    assert_eq!(read(&files, &[]), read(&[("p", &plain("5", "2kpps"))], &[]));
    let set = [("n", "7"), ("rate", "50%")];
    assert_eq!(read(&files, &set), read(&[("p", &plain("7", "50%"))], &[]));
}

#[test]
fn a_value_is_text_and_no_yaml() {
    let text =
        "variables: { x: \"a, b: { c } # d\" }\nports: { a: { interface: ${x} } }\nflows: {}\n";
    let scenario = read(&[("f", text)], &[]).unwrap();
    assert_eq!(scenario.ports["a"].interface.as_deref(), Some("a, b: { c } # d"));
    let scenario = read(&[("f", text)], &[("x", "*y ${x}")]).unwrap();
    assert_eq!(scenario.ports["a"].interface.as_deref(), Some("*y ${x}"));
}

#[test]
fn mistakes_are_named_in_the_file_that_they_are_in() {
    let top = format!("include: c.yaml\n{FLOW}");
    for (common, expected) in [
        (
            "ports:\n  a: {}\n  b: { fil: x }\n",
            "c.yaml:3:8: unknown key 'fil'; did you mean 'file'?",
        ),
        (
            "ports:\n  a: {}\n  b: { engine: packet }\n",
            "c.yaml:3:3: ports.b.interface: this engine needs the name of an interface, because no flow from here has a \
             destination; write for example 'interface: eth1'",
        ),
        (
            "variables: { e: kernal }\nports:\n  a: { engine: ${e} }\n",
            "c.yaml:3:16: unknown word 'kernal'; did you mean 'kernel'?",
        ),
        (
            "variables: { n: a }\nports:\n  a: { cores: [ ${n} ] }\n",
            "c.yaml:3:17: an entry of 'cores' is \"a\", and should be a whole number up to 65535",
        ),
        (
            "variables: { n: 1 }\nports:\n  a: { cores: [ ${m} ] }\n",
            "c.yaml:3:17: there is no variable 'm'; there is n",
        ),
        (
            "variables: { nine: 1 }\nports:\n  a: { cores: [ ${nin} ] }\n",
            "c.yaml:3:17: there is no variable 'nin'; did you mean 'nine'?",
        ),
        ("ports: { a: {} }\nvariables:\n  x: ${y}\n", "c.yaml:3:6: there is no variable 'y'"),
        (
            "ports: { a: {} }\nvariables: [x]\n",
            "c.yaml:2:12: 'variables' should be keys with values",
        ),
        (
            "variables: { a: x }\nports: { ${a}: {}, x: {} }\n",
            "c.yaml:2:20: 'x' occurs twice; give each of them a name of its own",
        ),
        (
            "flows:\n  x: { from: a }\n",
            "s.yaml:2:10: 'x' of the flows is defined in c.yaml:2:3 already; give each a name of its own",
        ),
        ("seed: 5", "s.yaml:1:1: the key 'ports' is missing"),
    ] {
        let message = error(&[("s.yaml", &top), ("c.yaml", common)], &[]);
        assert!(message.starts_with(expected), "{common}: {message}");
    }
}

#[test]
fn a_key_with_a_variable_is_found() {
    let text = "variables: { name: voice }\nports: { a: {} }\nflows:\n  ${name}:\n    from: a\n    to: a\n    rate: 5kpps\n    size: 64B\n    count: 5\n    bytes: 0B\n    start: 30s\n    stop: 2s\n";
    let message = error(&[("f", text)], &[]);
    assert!(message.starts_with("f:12:5: flows.voice.stop: "), "{message}");
}

#[test]
fn includes_have_an_end() {
    let all = format!("{PORTS}{FLOW}");
    for (files, expected) in [
        (vec![("s", "include: x.yaml\n")], "s:1:10: cannot include 'x.yaml': no such file"),
        (
            vec![("s", "include:\n  - b\n"), ("b", "include: s")],
            "b:1:10: this file includes itself: s > b > s; leave it out here",
        ),
        (vec![("s", "include: s")], "s:1:10: this file includes itself: s > s; leave it out here"),
        (
            vec![("s", "include: [b, ./c]"), ("b", &all), ("c", "include: x/../b")],
            "./c:1:10: 'x/../b' is included already; once is enough (s > ./c > ./x/../b)",
        ),
        (
            vec![("s", "include: ${x}")],
            "s:1:10: the name of an included file, '${x}', has no variables",
        ),
        (vec![("s", "include: ''")], "s:1:10: the name of a file is not empty"),
        (
            vec![("s", "include: { a: b }")],
            "s:1:10: 'include' is keys with values, and should be the name of a file",
        ),
        (vec![("s", "include: 5")], "s:1:1: 'include' is 5, and should be the name of a file"),
    ] {
        let message = error(&files, &[]);
        assert!(message.starts_with(expected), "{files:?}: {message}");
    }
    let nested: Vec<(String, String)> =
        (0..12).map(|i| (format!("f{i}"), format!("include: f{}", i + 1))).collect();
    let nested: Vec<(&str, &str)> = nested.iter().map(|(a, b)| (&**a, &**b)).collect();
    let message = error(&nested, &[]);
    assert!(
        message.starts_with("f8:1:10: files are included at most 8 deep: f0 > f1"),
        "{message}"
    );
    let names: Vec<String> = (0..64).map(|i| format!("f{i}")).collect();
    let top = format!("include: [ {} ]", names.join(", "));
    let mut many: Vec<(&str, &str)> = vec![("top", &top)];
    many.extend(names.iter().map(|name| (name.as_str(), "seed: 1")));
    let message = error(&many, &[]);
    assert!(message.contains("a scenario has at most 64 files"), "{message}");
}

#[test]
fn what_is_set_must_be_declared_once() {
    let text = format!("variables: {{ rate: 1kpps }}\n{PORTS}{FLOW}");
    for (set, expected) in [
        (vec![("rat", "5")], "the scenario declares no variable 'rat'; did you mean 'rate'?"),
        (vec![("rate", "5"), ("rate", "6")], "'rate' is given twice; give it once"),
    ] {
        assert_eq!(error(&[("f", &text)], &set), expected);
    }
    let without = format!("{PORTS}{FLOW}");
    let message = error(&[("f", &without)], &[("rate", "5")]);
    assert_eq!(message, "the scenario declares no variables; leave it out");
}

#[test]
fn a_text_alone_includes_nothing() {
    let error = Scenario::from_yaml("include: x", "standard input").unwrap_err().to_string();
    assert!(error.starts_with("standard input:1:10: cannot include 'x': only a file"), "{error}");
}
