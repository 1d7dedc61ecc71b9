//! A filter's text as words, each with its place.

use wirebeat_units::fault;

use super::FilterError;

/// A word and where it begins, in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    pub text: &'a str,
    pub at: usize,
}

/// Takes a text apart.
pub fn words(text: &str) -> Result<Vec<Word<'_>>, FilterError> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut begun: Option<(usize, usize)> = None;
    let mut chars = text.char_indices().zip(1..).peekable();
    while let Some(((index, char), at)) = chars.next() {
        let mut alone = index..index + char.len_utf8();
        match char {
            '(' | ')' | '!' => {}
            '&' | '|' if chars.next_if(|((_, next), _)| *next == char).is_some() => alone.end += 1,
            '[' | ']' | '&' | '|' | '=' | '<' | '>' | '+' | '*' | '^' => {
                let why = fault!(
                    "'{char}' is of expressions about bytes, which are not there";
                    "there are 'less' and 'greater', and tests of ends and protocols"
                );
                return Err(FilterError { at, why });
            }
            _ if char.is_whitespace() => alone.end = alone.start,
            _ => {
                begun.get_or_insert((index, at));
                continue;
            }
        }
        if let Some((begin, at)) = begun.take() {
            words.push(Word { text: text.get(begin..index).unwrap_or_default(), at });
        }
        if !alone.is_empty() {
            words.push(Word { text: text.get(alone).unwrap_or_default(), at });
        }
    }
    if let Some((begin, at)) = begun {
        words.push(Word { text: text.get(begin..).unwrap_or_default(), at });
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_places() {
        let words = words("!(tcp port 80)&&net 10.0.0.0/8").unwrap();
        let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
        assert_eq!(texts, ["!", "(", "tcp", "port", "80", ")", "&&", "net", "10.0.0.0/8"]);
        assert_eq!(
            words.iter().map(|word| word.at).collect::<Vec<_>>(),
            [1, 2, 3, 7, 12, 14, 15, 17, 21]
        );
        assert!(
            super::words("tcp[13] & 2 != 0")
                .unwrap_err()
                .why
                .to_string()
                .contains("expressions about bytes")
        );
    }
}
