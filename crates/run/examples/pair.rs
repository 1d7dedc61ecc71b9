//! Scratch: a scenario over a testbed.
use std::collections::BTreeMap;
use wirebeat_run::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let bed = wirebeat_testbed::Testbed::pair(&Default::default()).unwrap();
    let text = std::fs::read_to_string(&a[1]).unwrap();
    let scenario =
        wirebeat_traffic::spec::Scenario::from_yaml(&text, &a[1]).unwrap_or_else(|e| panic!("{e}"));
    let mut options = Options { command_line: a.clone(), ..Options::default() };
    options.namespaces = BTreeMap::from([
        ("a".into(), bed.a.namespace.clone()),
        ("b".into(), bed.b.namespace.clone()),
    ]);
    let report = prepare(&scenario, options)
        .unwrap_or_else(|e| panic!("{e}"))
        .start(&mut Silent, &Stop::new());
    if a.len() > 2 {
        println!("{}", serde_json::to_string(&report).unwrap());
    } else {
        println!(
            "{}",
            wirebeat_report::text::report(&report, wirebeat_report::format::Colour::Never)
        );
    }
}
