use proptest::prelude::*;
use wirebeat_units::Nanos;

use super::*;
use crate::seen::Interface;
use crate::seen::tests::frame;

fn opening() -> Opening {
    let interface = Interface { port: Some("b".into()), name: Some("eth1".into()), ..interface() };
    Opening {
        interfaces: vec![interface],
        flows: vec![(4, "voip".into()), (7, "bulk data".into()), (9, "12".into())],
        ..Opening::default()
    }
}

fn interface() -> Interface {
    Interface {
        port: None,
        name: None,
        description: String::new(),
        speed: None,
        snap_len: 0,
        timestamps: String::new(),
    }
}

fn means(text: &str, seen: &Seen<'_>, before: Before) -> bool {
    let selection = Selection::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    selection.bind(&opening()).unwrap_or_else(|error| panic!("{text}: {error}")).means(seen, before)
}

#[test]
fn conditions_are_on_what_was_measured() {
    // delay 1.5 ms, gap 20 us, three missing
    let seen = Seen {
        flow: Some(4),
        sequence: Some(17),
        at: Nanos::new(5_000_000),
        sent: Some(Nanos::new(3_500_000)),
        outcome: Outcome::Received(Standing::New),
        frame_len: 214,
        queue: 2,
        ..frame(&[])
    };
    let before = Before { gap: Some(Nanos::from_micros(20)), missing: 3 };
    for text in [
        "flow == voip",
        "flow = 'voip'",
        "flow == 4",
        "flow != \"bulk data\"",
        "port == b",
        "port == eth1",
        "delay > 1ms",
        "delay>1ms",
        "delay == 1.5ms",
        "delay > -1us",
        "gap <= 20us",
        "lost-before",
        "lost-before >= 3",
        "not lost-before > 3",
        "length > 64",
        "length <= 214B",
        "sequence == 17",
        "queue == 2",
        "in-order and received",
        "odd",
        "!duplicate",
        "not (duplicate or reordered)",
        "flow == voip and delay > 1ms",
        // with precedence of `and`
        "in-order or duplicate and duplicate",
        "duplicate and duplicate or in-order",
        "duplicate || flow == 4 && ! ( sent || failed )",
        "not not in-order",
    ] {
        assert!(means(text, &seen, before), "{text}");
    }
    for text in [
        "flow == 12",
        "flow == 'bulk data'",
        "port != b",
        "delay < 1ms",
        "delay != 1.5ms",
        "gap > 20us",
        "lost-before == 2",
        "sequence < 17",
        "send-lateness > 0s",
        "foreign or malformed or fragment or stale or unknown-flow or beyond-window or doubtful or without-probe",
        "sent or failed or expired",
        "(in-order or duplicate) and duplicate",
    ] {
        assert!(!means(text, &seen, before), "{text}");
    }
}

#[test]
fn what_a_frame_does_not_have_does_not_compare() {
    let seen = Seen { sent: None, sequence: None, flow: None, ..frame(&[]) };
    let none = Before::default();
    for text in
        ["delay > 0s", "delay <= 0s", "gap != 1s", "sequence >= 0", "flow == voip", "flow != voip"]
    {
        assert!(!means(text, &seen, none) && means(&format!("not {text}"), &seen, none), "{text}");
    }
    let sent = Seen {
        outcome: Outcome::Sent,
        at: Nanos::new(900),
        due: Some(Nanos::new(400)),
        sent: Some(Nanos::new(100)),
        ..seen
    };
    assert!(means("send-lateness == 500ns and sent and not delay > 0s", &sent, none));
}

#[test]
fn what_is_not_understood_is_told_with_place_and_remedy() {
    for (text, at, why, hint) in [
        ("", 1, "ends where a condition is to follow", "write one of flow, port, delay"),
        ("delay", 6, "ends where a comparison is to follow", ">="),
        ("delay >", 8, "ends where a time is to follow", "1.5ms"),
        ("delay > fast", 9, "'fast' is not", "1.5ms"),
        ("delay ~ 1ms", 7, "'~' stands where 'delay' is compared", "write =="),
        ("flow == voip dely > 1ms", 14, "'dely' cannot stand here", "write 'and' or 'or'"),
        ("dely > 1ms", 1, "'dely' is not a condition", "write one of flow, port, delay, gap"),
        ("flow > voip", 6, "neither less nor greater", "write == or !="),
        ("flow ==", 8, "ends where the name of a flow", "write flow == NAME"),
        ("(duplicate", 1, "not closed", ""),
        ("(duplicate stale)", 12, "'stale' cannot stand here", "closing parenthesis"),
        ("duplicate)", 10, "no parenthesis was opened", ""),
        ("flow == 'voip", 9, "quotation mark is not closed", "write '"),
        ("sequence > 1ms", 12, "is not a number", "write for example 17"),
        ("length > 64b", 10, "64b", ""),
        ("duplicate and", 14, "ends where a condition", "write one of"),
    ] {
        let error = Selection::new(text).expect_err(text);
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.why.what.contains(why), "{text}: {error}");
        assert!(error.why.hint.unwrap_or_default().contains(hint), "{text}");
    }
    let error =
        Selection::new("delay > 1ms and flow == vip").unwrap().bind(&opening()).unwrap_err();
    let text = "at character 25: there is no flow 'vip'; write one of voip, bulk data, 12";
    assert_eq!(error.to_string(), text);
    let error = Selection::new("port == a").unwrap().bind(&opening()).unwrap_err();
    assert_eq!(error.to_string(), "at character 9: there is no port 'a'; write one of b, eth1");
    let error = Selection::new(&"(".repeat(100)).unwrap_err();
    assert!(error.to_string().contains("60 parentheses"), "{error}");
    assert!(Selection::new(&" ".repeat(5000)).is_err());
}

/// The deepest that there are, each with an operand that waits.
#[test]
fn the_deepest_expressions_are_worked_out_right() {
    let seen = frame(&[]);
    for inner in ["received", "sent"] {
        let text = format!("{}{inner}{}", "sent or received and (".repeat(60), ")".repeat(60));
        assert_eq!(means(&text, &seen, Before::default()), inner == "received");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_selection_or_an_error_with_a_place(text in "\\PC{0,60}") {
        match Selection::new(&text) {
            Ok(selection) => drop(selection.bind(&opening())),
            Err(error) => prop_assert!(error.at >= 1 && error.at <= text.chars().count() + 1),
        }
    }

    /// Every word of the tables, in any order, held against frames of any kind: the fuzz target `selection`, in short.
    #[test]
    fn any_words_are_held_against_any_frame_or_refused(
        picked in prop::collection::vec((0..6_u8, any::<prop::sample::Index>()), 0..40),
        found in prop::collection::vec(
            (any::<[u64; 3]>(), 0..Standing::ALL.len() + 3, any::<[bool; 4]>(), any::<[u16; 3]>()), 0..8,
        ),
    ) {
        const OTHERS: [&str; 20] = [
            "and", "or", "not", "!", "&&", "||", "(", "(", ")", ")", "flow == voip", "port != eth1", "flow == 12",
            "1ms", "-3us", "18446744073709551615s", "64B", "17", "'bulk data'", "4294967295",
        ];
        let word = |(kind, index): &(u8, prop::sample::Index)| match kind {
            0 => FLAGS[index.index(FLAGS.len())].0,
            1 | 2 => QUANTITIES[index.index(QUANTITIES.len())].0,
            3 => ["==", "=", "!=", "<", "<=", ">", ">="][index.index(7)],
            _ => OTHERS[index.index(OTHERS.len())],
        };
        let text = picked.iter().map(word).collect::<Vec<_>>().join(" ");
        match Selection::new(&text) {
            Err(error) => prop_assert!(error.at >= 1 && error.at <= text.len() + 1, "{text}: {error}"),
            Ok(selection) => {
                let bound = selection.bind(&opening()).unwrap();
                for ([at, sent, due], outcome, [flow, sequence, has_sent, has_due], numbers) in found {
                    let outcome = match outcome.checked_sub(Standing::ALL.len()) {
                        None => Outcome::Received(Standing::ALL[outcome]),
                        Some(0) => Outcome::Sent,
                        Some(1) => Outcome::Failed,
                        Some(_) => Outcome::Expired,
                    };
                    let seen = Seen {
                        outcome,
                        at: Nanos::new(at),
                        sent: has_sent.then_some(Nanos::new(sent)),
                        due: has_due.then_some(Nanos::new(due)),
                        flow: flow.then_some(numbers[0]),
                        sequence: sequence.then_some(numbers[1].into()),
                        queue: numbers[2],
                        ..frame(&[])
                    };
                    let gap = has_due.then_some(Nanos::new(due));
                    let before = Before { missing: numbers[2].into(), gap };
                    let means = bound.means(&seen, before);
                    let not = Selection::new(&format!("not ({text})"));
                    // where there is room for one more parenthesis
                    if let Ok(not) = not {
                        prop_assert_eq!(not.bind(&opening()).unwrap().means(&seen, before), !means);
                    }
                }
            }
        }
    }

    /// Held against a reader of the same words that goes down from the weakest operator.
    #[test]
    fn any_words_mean_what_they_say(
        words in prop::collection::vec(prop::sample::select(vec![
            "not", "and", "or", "(", ")", "received", "sent", "odd", "in-order",
        ]), 0..14),
    ) {
        let seen = frame(&[]);
        let Ok(selection) = Selection::new(&words.join(" ")) else {
            prop_assert_eq!(model(&words), None);
            return Ok(());
        };
        let found = selection.bind(&opening()).unwrap().means(&seen, Before::default());
        prop_assert_eq!(Some(found), model(&words), "{}", words.join(" "));
    }
}

/// What words say of a frame that arrived in order; `None` where they are no selection.
fn model(words: &[&str]) -> Option<bool> {
    let split = |at: &str| {
        let mut depth = 0;
        words.iter().enumerate().rev().find_map(|(index, word)| {
            depth += i32::from(*word == ")") - i32::from(*word == "(");
            (depth == 0 && *word == at).then_some(index)
        })
    };
    if let Some(index) = split("or") {
        return Some(model(&words[..index])? | model(&words[index + 1..])?);
    }
    if let Some(index) = split("and") {
        return Some(model(&words[..index])? & model(&words[index + 1..])?);
    }
    match words {
        ["not", rest @ ..] => model(rest).map(|holds| !holds),
        ["(", inner @ .., ")"] => model(inner),
        ["received" | "in-order"] => Some(true),
        ["sent" | "odd"] => Some(false),
        _ => None,
    }
}
