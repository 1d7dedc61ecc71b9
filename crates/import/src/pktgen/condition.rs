//! Conditions of shell scripts: tests of texts and numbers, joined by and, or and not; and what may be left
//! out where a condition is not known.

use super::command::{HARMLESS, RUNS, SHOWS};
use super::syntax::{List, Node, Out, Stage};
use super::word::Word;

/// Whether leaving it out may change what is sent: all but what only shows or tests something.
pub(super) fn concerns(stage: &Stage) -> bool {
    let any = |list: &List| list.iter().any(|item| item.concerns);
    let writes = match &stage.to.out {
        Some(Out::File(file)) => !file.text().starts_with("/dev/"),
        Some(Out::Messages) | None => false,
    };
    writes
        || match &stage.node {
            Node::Simple(words) => {
                let skipped = |word: &Option<&str>| {
                    word.is_some_and(|word| RUNS.contains(&word) || word.starts_with('-'))
                };
                words.iter().map(Word::plain).find(|word| !skipped(word)).is_some_and(|first| {
                    !first.is_some_and(|word| HARMLESS.contains(&word) || SHOWS.contains(&word))
                })
            }
            Node::For { body, .. } | Node::Group(body) | Node::Subshell(body) => any(body),
            Node::If { arms, otherwise } => {
                arms.iter().any(|(condition, body)| any(condition) || any(body)) || any(otherwise)
            }
            Node::Count { .. } | Node::Arithmetic(_) | Node::Function { .. } | Node::Unknown(_) => {
                true
            }
        }
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
