//! "Did you mean …": the known word that is nearest to an unknown one.

use wirebeat_units::{Fault, human};

use super::printable;

/// Words longer than this are not compared; no key is as long.
const MAX_LEN: usize = 64;
/// More candidates than this are no help.
const MAX_LISTED: usize = 16;

/// A candidate that begins with a word of so many letters is meant by it.
const MIN_BEGINNING: usize = 4;

/// The candidate that differs least from `word`, if it differs by no more than a third of its letters or begins with
/// it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = letters(word)?;
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let letters = letters(candidate)?;
            let longer = letters.len().max(word.len());
            let most = longer.div_ceil(3).min(longer - 1);
            let begins = word.len() >= MIN_BEGINNING && letters.starts_with(&word);
            Some((distance(&word, &letters), candidate))
                .filter(|(distance, _)| begins || *distance <= most)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "{what} '{word}'", and either the nearest candidate or, if there are few, all of them.
pub(crate) fn with_hint<'a>(
    what: &str,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> Fault {
    let message = Fault::from(format!("{what} '{}'", printable(word, MAX_LEN)));
    if let Some(nearest) = nearest(word, candidates.clone()) {
        return message.or_hint(format!("did you mean '{nearest}'?"));
    }
    let all: Vec<&str> = candidates.into_iter().take(MAX_LISTED + 1).collect();
    match all.len() {
        few if (1..=MAX_LISTED).contains(&few) => message.or_hint(human::present(&all)),
        _ => message,
    }
}

fn letters(word: &str) -> Option<Vec<char>> {
    let letters: Vec<char> = word.chars().take(MAX_LEN + 1).flat_map(char::to_lowercase).collect();
    (!letters.is_empty() && letters.len() <= MAX_LEN).then_some(letters)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other
/// (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_of_the_hand_are_recognised() {
        let keys = ["rate", "size", "burst", "start", "stop", "hop-limit"];
        for (word, key) in
            [("rat", "rate"), ("Size", "size"), ("brust", "burst"), ("hop_limit", "hop-limit")]
        {
            assert_eq!(nearest(word, keys), Some(key), "{word}");
        }
        for word in ["", "velocity", "x", &"rate".repeat(1000)] {
            assert_eq!(nearest(word, keys), None, "{word}");
        }
    }

    #[test]
    fn a_word_like_none_is_told_what_there_is() {
        let hint = with_hint("there is no port", "x", ["left", "right"]);
        assert_eq!(hint.to_string(), "there is no port 'x'; there are left, right");
    }
}
