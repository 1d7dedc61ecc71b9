//! A filter's text as words and operators, each with its place.

/// A word or an operator, and where it begins, in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    pub text: &'a str,
    pub at: usize,
}

/// Operators of two characters; those of one are whatever else is no part of a word.
const PAIRS: [&str; 8] = ["&&", "||", "!=", "==", "<=", ">=", "<<", ">>"];

/// Takes a text apart.
pub fn words(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut begun: Option<(usize, usize)> = None;
    // in brackets a colon stands before a size, elsewhere it is of an address
    let mut brackets = 0_usize;
    let mut chars = text.char_indices().zip(1..).peekable();
    while let Some(((index, char), at)) = chars.next() {
        let rest = text.get(index..).unwrap_or_default();
        let mut len = char.len_utf8();
        let is_operator = match char {
            '(' | ')' | '[' | ']' | '+' | '*' | '/' | '%' | '^' => true,
            '&' | '|' | '!' | '=' | '<' | '>' => true,
            ':' => brackets > 0,
            // within a name, an address or a range it belongs to them: tcp-syn, 70-90
            '-' => begun.is_none() || !goes_on(rest),
            _ => false,
        };
        match char {
            '[' => brackets += 1,
            ']' => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        if !is_operator && !char.is_whitespace() {
            begun.get_or_insert((index, at));
            continue;
        }
        if let Some((begin, at)) = begun.take() {
            words.push(Word { text: text.get(begin..index).unwrap_or_default(), at });
        }
        if is_operator {
            if PAIRS.iter().any(|pair| rest.starts_with(pair)) {
                len += 1;
                chars.next();
            }
            words.push(Word { text: rest.get(..len).unwrap_or_default(), at });
        }
    }
    if let Some((begin, at)) = begun {
        words.push(Word { text: text.get(begin..).unwrap_or_default(), at });
    }
    words
}

/// Whether a letter or a digit follows the first character.
fn goes_on(rest: &str) -> bool {
    rest.chars().nth(1).is_some_and(char::is_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_places() {
        let words = words("!(tcp port 80)&&net 10.0.0.0/8");
        let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
        let expected = ["!", "(", "tcp", "port", "80", ")", "&&", "net", "10.0.0.0", "/", "8"];
        assert_eq!(texts, expected);
        let places: Vec<usize> = words.iter().map(|word| word.at).collect();
        assert_eq!(places, [1, 2, 3, 7, 12, 14, 15, 17, 21, 29, 30]);
    }

    #[test]
    fn operators_are_words() {
        for (text, expected) in [
            ("tcp[13]&2!=0", "tcp [ 13 ] & 2 != 0"),
            ("udp[4:2]>=100", "udp [ 4 : 2 ] >= 100"),
            ("host fd00::1", "host fd00::1"),
            ("len-4", "len-4"),
            ("len - 4", "len - 4"),
            ("ip[0]-4<<2", "ip [ 0 ] - 4 << 2"),
            (
                "tcp[tcpflags]&(tcp-syn|tcp-fin)==tcp-syn",
                "tcp [ tcpflags ] & ( tcp-syn | tcp-fin ) == tcp-syn",
            ),
            ("portrange 70-90", "portrange 70-90"),
            ("ether host 02-00-00-00-00-01", "ether host 02-00-00-00-00-01"),
            ("-1", "- 1"),
            ("!!udp", "! ! udp"),
            ("2^3%4*5/6", "2 ^ 3 % 4 * 5 / 6"),
        ] {
            let words = words(text);
            let texts: Vec<&str> = words.iter().map(|word| word.text).collect();
            assert_eq!(texts.join(" "), expected, "{text}");
        }
    }
}
