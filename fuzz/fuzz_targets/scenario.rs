//! Texts that may be taken for scenarios.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wirebeat_traffic::compile::{Files, Link, Links, compile};
use wirebeat_traffic::scenario::Scenario;

fuzz_target!(|text: &str| {
    let Ok(scenario) = Scenario::from_yaml(text, "fuzz") else { return };
    let link = |(number, port): (u16, &String)| (port.clone(), Link::imaginary(number));
    let links = Links { ports: (0..=u16::MAX).zip(scenario.ports.keys()).map(link).collect() };
    let _ = compile(&scenario, &links, &Files::default());
    let Ok(written) = scenario.to_yaml() else { return };
    match Scenario::from_yaml(&written, "written") {
        Ok(again) => assert_eq!(again, scenario, "{written}"),
        Err(error) => panic!("{error}\n{written}"),
    }
});
