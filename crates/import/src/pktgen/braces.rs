//! Braces in words: `eth{0..3}`, `{a,b}`. They are what they are before anything is put into the word.

use super::word::{Part, Piece, Word};
use crate::text::closing;

/// How deep braces may stand within braces; deeper ones are text.
const MAX_DEPTH: usize = 8;
/// Stands for what is put into a word.
const HOLE: &str = "\0";

/// What there is room for.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub words: u64,
    pub bytes: usize,
}

/// What there is no room for.
#[derive(Debug, PartialEq)]
pub(super) enum Exceeded {
    Words,
    Bytes,
}

impl Room {
    fn check(self, words: usize, bytes: usize) -> Result<(), Exceeded> {
        match words as u64 > self.words {
            true => Err(Exceeded::Words),
            false if bytes > self.bytes => Err(Exceeded::Bytes),
            false => Ok(()),
        }
    }
}

/// The words that a word stands for; `None`: itself.
pub(super) fn alternatives(word: &Word, room: Room) -> Result<Option<Vec<Word>>, Exceeded> {
    if !word.pieces.iter().filter_map(bare).any(|text| text.contains('{')) {
        return Ok(None);
    }
    let shape: String = word.pieces.iter().map(|piece| bare(piece).unwrap_or(HOLE)).collect();
    if has_holes(&shape) {
        let mut unknown = Word::default();
        unknown.push(Part::Unknown(word.shown()), false);
        return Ok(Some(vec![unknown]));
    }
    let (mut words, mut bytes) = (vec![Word::default()], 0usize);
    for piece in &word.pieces {
        let Some(text) = bare(piece) else {
            bytes = bytes.saturating_add(words.len().saturating_mul(len(&piece.part)));
            room.check(words.len(), bytes)?;
            words.iter_mut().for_each(|word| word.pieces.push(piece.clone()));
            continue;
        };
        let texts = texts(text, room, 0)?;
        let each: usize = texts.iter().map(String::len).sum();
        let count = words.len().saturating_mul(texts.len());
        bytes = bytes.saturating_mul(texts.len()).saturating_add(words.len().saturating_mul(each));
        room.check(count, bytes)?;
        let with = |word: &Word, text: &str| {
            let mut word = word.clone();
            word.add(text, false);
            word
        };
        words =
            words.iter().flat_map(|word| texts.iter().map(move |text| with(word, text))).collect();
    }
    Ok(Some(words))
}

/// The text of a piece in which braces are more than that.
fn bare(piece: &Piece) -> Option<&str> {
    match &piece.part {
        Part::Text(text) if !piece.quoted => Some(text),
        _ => None,
    }
}

fn len(part: &Part) -> usize {
    match part {
        Part::Text(text) | Part::Arithmetic(text) | Part::Command(text) | Part::Unknown(text) => {
            text.len()
        }
        Part::Variable { name, otherwise } => {
            let otherwise = otherwise.iter().flat_map(|otherwise| &otherwise.word.pieces);
            name.len() + otherwise.map(|piece| len(&piece.part)).sum::<usize>()
        }
    }
}

/// Whether there are braces whose choices are put in: `{0..$LAST}`.
fn has_holes(shape: &str) -> bool {
    let mut rest = shape;
    while let Some((_, after)) = rest.split_once('{') {
        let inside = closing(after, '{', '}').and_then(|end| after.get(..end));
        if inside.is_some_and(|inside| {
            inside.contains(HOLE) && (inside.contains(',') || inside.contains(".."))
        }) {
            return true;
        }
        rest = after;
    }
    false
}

/// The texts that a text stands for.
fn texts(text: &str, room: Room, depth: usize) -> Result<Vec<String>, Exceeded> {
    let (mut done, mut bytes, mut rest) = (vec![String::new()], 0usize, text);
    while !rest.is_empty() {
        let open = rest.find('{');
        let after = open.and_then(|open| rest.get(open + 1..));
        let inside = after.and_then(|after| after.get(..closing(after, '{', '}')?));
        let choices = match inside.filter(|_| depth < MAX_DEPTH) {
            Some(inside) => choices(inside, room, depth)?,
            None => None,
        };
        let (literal, next) = match (&choices, inside, open) {
            (Some(_), Some(inside), Some(open)) => {
                (rest.get(..open), rest.get(open + inside.len() + 2..))
            }
            (_, _, Some(open)) => (rest.get(..open + 1), rest.get(open + 1..)),
            _ => (Some(rest), None),
        };
        let (literal, choices) = (literal.unwrap_or(""), choices.unwrap_or(vec![String::new()]));
        let each: usize = choices.iter().map(String::len).sum();
        let count = done.len().saturating_mul(choices.len());
        bytes = bytes
            .saturating_mul(choices.len())
            .saturating_add(count.saturating_mul(literal.len()))
            .saturating_add(done.len().saturating_mul(each));
        room.check(count, bytes)?;
        match choices.as_slice() {
            [choice] => done.iter_mut().for_each(|text| text.extend([literal, choice])),
            _ => {
                let with = |text: &String| {
                    choices
                        .iter()
                        .map(|choice| [text, literal, choice].concat())
                        .collect::<Vec<_>>()
                };
                done = done.iter().flat_map(with).collect();
            }
        }
        rest = next.unwrap_or("");
    }
    Ok(done)
}

/// What stands within braces, if it is a choice.
fn choices(inside: &str, room: Room, depth: usize) -> Result<Option<Vec<String>>, Exceeded> {
    let mut open = 0u32;
    let at_top = |c: char| {
        match c {
            '{' => open += 1,
            '}' => open = open.saturating_sub(1),
            _ => {}
        }
        c == ',' && open == 0
    };
    let parts: Vec<&str> = inside.split(at_top).collect();
    if parts.len() < 2 {
        return range(inside, room);
    }
    room.check(parts.len(), 0)?;
    let mut choices = Vec::new();
    for part in parts {
        choices.extend(texts(part, room, depth + 1)?);
        room.check(choices.len(), 0)?;
    }
    Ok(Some(choices))
}

/// `0..3`, `3..0`, `00..12..4`.
fn range(inside: &str, room: Room) -> Result<Option<Vec<String>>, Exceeded> {
    let parts: Vec<&str> = inside.splitn(4, "..").collect();
    let number = |text: &str| text.parse::<i32>().ok().map(i64::from);
    let (first, last, step) = match parts.as_slice() {
        [first, last] => (first, last, Some(1)),
        [first, last, step] => (first, last, number(step)),
        _ => return Ok(None),
    };
    let (Some(from), Some(to), Some(step)) = (number(first), number(last), step) else {
        // More than any loop has steps is not text either.
        let digits = |text: &str| text.len() > 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        return if digits(first) || digits(last) { Err(Exceeded::Words) } else { Ok(None) };
    };
    let step = step.unsigned_abs().max(1);
    let count = from.abs_diff(to) / step + 1;
    if count > room.words {
        return Err(Exceeded::Words);
    }
    let padded = |text: &str| {
        text.trim_start_matches('-').len() > 1 && text.trim_start_matches('-').starts_with('0')
    };
    let width = if padded(first) || padded(last) { first.len().max(last.len()) } else { 0 };
    room.check(0, width.saturating_mul(usize::try_from(count).unwrap_or(usize::MAX)))?;
    let number = |n: u64| {
        let distance = i64::try_from(n * step).unwrap_or(0);
        let value = if from <= to { from + distance } else { from - distance };
        format!("{value:0width$}")
    };
    Ok(Some((0..count).map(number).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let room = Room { words: 100, bytes: 10_000 };
        texts(text, room, 0).map_or_else(|why| format!("{why:?}"), |texts| texts.join(" "))
    }

    #[test]
    fn braces_are_those_of_the_shell() {
        for (text, expected) in [
            ("a", "a"),
            ("{0..2}", "0 1 2"),
            ("x{2..0}y", "x2y x1y x0y"),
            ("{-1..1}", "-1 0 1"),
            ("{01..10..4}", "01 05 09"),
            ("{a,b}{1,2}", "a1 a2 b1 b2"),
            ("{a,b{1,2}}", "a b1 b2"),
            ("{,x}", " x"),
            ("{}{x}{0..}{..}", "{}{x}{0..}{..}"),
            ("{x{1,2}}", "{x1} {x2}"),
            ("{{a,b}", "{a {b"),
            ("a}b{", "a}b{"),
            ("{1..1000}", "Words"),
            ("{1..99999999999999999999}", "Words"),
            ("{1..2147483647..2147483647}", "1"),
            ("{-2147483648..2147483647..2147483647}", "-2147483648 -1 2147483646"),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
        assert_eq!(of(&"{0,1}".repeat(100)), "Words");
        assert_eq!(of(&format!("{}{{1..90}}", "x".repeat(1000))), "Bytes");
        assert_eq!(of(&"{".repeat(1000)), "{".repeat(1000));
    }
}
