//! Conditions of shell scripts: tests of texts and numbers, joined by and, or and not.

use super::lexer::Word;
use super::parser::{List, Node};

/// Whether something in it is for pktgen.
pub(super) fn concerns(list: &List) -> bool {
    list.iter().any(|item| match &item.node {
        Node::Command(command) => {
            let name = command.words.first().map(Word::text).unwrap_or_default();
            let out = command.out.as_ref().map(Word::text).unwrap_or_default();
            name.starts_with("pg")
                || name == "proc_cmd"
                || out.contains("pktgen")
                || out.contains("PGDEV")
        }
        Node::For { body, .. } | Node::Count { body, .. } | Node::Group(body) => concerns(body),
        Node::If { arms, otherwise } => {
            arms.iter().any(|(_, body)| concerns(body)) || concerns(otherwise)
        }
        _ => false,
    })
}

/// Whether what stands within the brackets of a test holds; `None`: it is about the machine, or not read.
pub(super) fn holds(words: &[&str]) -> Option<bool> {
    let mut parts = words.split(|word| matches!(*word, "||" | "-o"));
    parts.try_fold(false, |any, part| Some(any | all_hold(part)?))
}

fn all_hold(words: &[&str]) -> Option<bool> {
    let mut parts = words.split(|word| matches!(*word, "&&" | "-a"));
    parts.try_fold(true, |all, part| {
        let (negated, part) = match part {
            ["!", rest @ ..] => (true, rest),
            part => (false, part),
        };
        Some(all & (one_holds(part)? != negated))
    })
}

fn one_holds(words: &[&str]) -> Option<bool> {
    let compare = |a: &str, b: &str| {
        let number = |text: &str| text.trim().parse::<i64>().ok();
        Some(number(a)?.cmp(&number(b)?))
    };
    Some(match words {
        [] => false,
        [text] | ["-n", text] => !text.is_empty(),
        ["-z", text] => text.is_empty(),
        [a, "=" | "==", b] => a == b,
        [a, "!=", b] => a != b,
        [a, "-eq", b] => compare(a, b)?.is_eq(),
        [a, "-ne", b] => compare(a, b)?.is_ne(),
        [a, "-lt", b] => compare(a, b)?.is_lt(),
        [a, "-le", b] => compare(a, b)?.is_le(),
        [a, "-gt", b] => compare(a, b)?.is_gt(),
        [a, "-ge", b] => compare(a, b)?.is_ge(),
        _ => return None,
    })
}
