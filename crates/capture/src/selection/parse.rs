//! The text of a selection, read from the left to the right into the order in which it is worked out.

use wirebeat_units::{Bytes, Comparison, Fault, Nanos, fault};

use super::{DEPTH_MAX, FLAGS, Flag, Named, Node, QUANTITIES, SelectionError, ValueKind, What};

/// A word, an operator or a parenthesis, and where it begins, in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token<'a> {
    text: &'a str,
    at: usize,
    /// It stood in quotation marks, and so is a name.
    quoted: bool,
}

pub(super) fn selection(text: &str) -> Result<Vec<Node<Named>>, SelectionError> {
    let tokens = tokens(text)?;
    let end = text.chars().count() + 1;
    let mut parser = Parser { tokens: &tokens, next: 0, end, depth: 0, nodes: Vec::new() };
    parser.any()?;
    match parser.peek() {
        None => Ok(parser.nodes),
        Some(token) if token.is(")") => {
            Err(token.error(fault!("no parenthesis was opened for this one")))
        }
        Some(token) => Err(token.error(fault!(
            "'{}' cannot stand here", token.shown();
            "write 'and' or 'or' before it"
        ))),
    }
}

/// Takes a text apart.
fn tokens(text: &str) -> Result<Vec<Token<'_>>, SelectionError> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().zip(1..).peekable();
    while let Some(((index, char), at)) = chars.next() {
        let mut end = index + char.len_utf8();
        let (mut begin, mut quoted) = (index, false);
        match char {
            _ if char.is_whitespace() => continue,
            '\'' | '"' => {
                (begin, quoted) = (end, true);
                let closed = chars.by_ref().find(|((_, next), _)| *next == char);
                let Some(((closing, _), _)) = closed else {
                    let why =
                        fault!("this quotation mark is not closed"; "write {char} behind the name");
                    return Err(SelectionError { at, why });
                };
                end = closing;
            }
            '(' | ')' => {}
            _ => {
                let operator = is_operator(char);
                let goes_on = |next: char| match operator {
                    true => is_operator(next),
                    false => !next.is_whitespace() && !is_operator(next) && !"()'\"".contains(next),
                };
                // `!(` and `!duplicate` are two each, `!=` is one
                while let Some(((index, next), _)) =
                    chars.next_if(|((_, next), _)| goes_on(*next) && (char != '!' || *next == '='))
                {
                    end = index + next.len_utf8();
                }
            }
        }
        tokens.push(Token { text: text.get(begin..end).unwrap_or_default(), at, quoted });
    }
    Ok(tokens)
}

fn is_operator(char: char) -> bool {
    matches!(char, '=' | '!' | '<' | '>' | '&' | '|')
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        !self.quoted && self.text == text
    }

    fn comparison(&self) -> Option<Comparison> {
        Comparison::of(self.text).filter(|_| !self.quoted)
    }

    fn shown(&self) -> String {
        self.text.chars().take(60).collect()
    }

    fn error(&self, why: Fault) -> SelectionError {
        SelectionError { at: self.at, why }
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    end: usize,
    depth: usize,
    nodes: Vec<Node<Named>>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    fn take_if(&mut self, texts: &[&str]) -> bool {
        let is = self.peek().is_some_and(|token| texts.iter().any(|text| token.is(text)));
        self.next += usize::from(is);
        is
    }

    /// The next one, or what is missing at the end.
    fn take(&mut self, wanted: &str, hint: impl Into<String>) -> Result<Token<'a>, SelectionError> {
        let token = self.peek().ok_or_else(|| SelectionError {
            at: self.end,
            why: fault!("the selection ends where {wanted} is to follow").or_hint(hint),
        })?;
        self.next += 1;
        Ok(token)
    }

    fn any(&mut self) -> Result<(), SelectionError> {
        self.all()?;
        while self.take_if(&["or", "||"]) {
            self.all()?;
            self.nodes.push(Node::Or);
        }
        Ok(())
    }

    fn all(&mut self) -> Result<(), SelectionError> {
        self.term()?;
        while self.take_if(&["and", "&&"]) {
            self.term()?;
            self.nodes.push(Node::And);
        }
        Ok(())
    }

    fn term(&mut self) -> Result<(), SelectionError> {
        let mut negated = false;
        while self.take_if(&["not", "!"]) {
            negated = !negated;
        }
        match self.peek().filter(|token| token.is("(")) {
            Some(opened) => self.parenthesis(opened)?,
            None => self.condition()?,
        }
        if negated {
            self.nodes.push(Node::Not);
        }
        Ok(())
    }

    fn parenthesis(&mut self, opened: Token<'a>) -> Result<(), SelectionError> {
        if self.depth == DEPTH_MAX {
            let why = fault!("there are {DEPTH_MAX} parentheses in one another at most");
            return Err(opened.error(why));
        }
        self.next += 1;
        self.depth += 1;
        self.any()?;
        self.depth -= 1;
        match self.peek() {
            Some(token) if token.is(")") => {
                self.next += 1;
                Ok(())
            }
            Some(token) => Err(token.error(fault!(
                "'{}' cannot stand here", token.shown();
                "write 'and', 'or' or a closing parenthesis before it"
            ))),
            None => Err(opened.error(fault!("this parenthesis is not closed"))),
        }
    }

    fn condition(&mut self) -> Result<(), SelectionError> {
        let word = self.take("a condition", conditions())?;
        if word.is("flow") || word.is("port") {
            let what = if word.text == "flow" { What::Flow } else { What::Port };
            return self.place(what);
        }
        let quantity = QUANTITIES.iter().find(|(name, ..)| word.is(name));
        let flag = FLAGS.iter().find(|(name, _)| word.is(name));
        let node = match (quantity, flag) {
            (Some((name, quantity, kind)), _) if flag.is_none() || self.compares() => {
                let comparison = self.comparison(name)?;
                Node::Compare(*quantity, comparison, self.value(*kind)?)
            }
            (_, Some((_, flag))) => Node::Is(*flag),
            _ => {
                let why = fault!("'{}' is not a condition", word.shown()).or_hint(conditions());
                return Err(word.error(why));
            }
        };
        self.nodes.push(node);
        Ok(())
    }

    /// Whether a comparison follows.
    fn compares(&self) -> bool {
        self.peek().is_some_and(|token| token.comparison().is_some())
    }

    fn comparison(&mut self, of: &str) -> Result<Comparison, SelectionError> {
        const HINT: &str = "write ==, !=, <, <=, > or >=";
        let token = self.take("a comparison", HINT)?;
        token.comparison().ok_or_else(|| {
            let why = fault!("'{}' stands where '{of}' is compared", token.shown());
            token.error(why.or_hint(HINT))
        })
    }

    fn place(&mut self, what: What) -> Result<(), SelectionError> {
        let before = self.peek();
        let equal = match self.comparison(&what.to_string())? {
            Comparison::Equal => true,
            Comparison::Unequal => false,
            _ => {
                let at = before.map_or(self.end, |token| token.at);
                let why = fault!("a {what} is neither less nor greater"; "write == or !=");
                return Err(SelectionError { at, why });
            }
        };
        let name = self.take(&format!("the name of a {what}"), format!("write {what} == NAME"))?;
        let name = Named { what, equal, name: name.text.to_owned(), at: name.at };
        self.nodes.push(Node::Place(name));
        Ok(())
    }

    fn value(&mut self, kind: ValueKind) -> Result<i64, SelectionError> {
        let (wanted, hint) = match kind {
            ValueKind::Time => ("a time", "write for example 1.5ms, 20us or -3us"),
            ValueKind::Bytes => ("a length", "write for example 64B or 1518"),
            ValueKind::Number => ("a number", "write for example 17"),
        };
        let token = self.take(wanted, hint)?;
        let text = token.text;
        let parsed = match kind {
            ValueKind::Time => {
                let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
                let time = text.parse::<Nanos>().map_err(|error| error.fault());
                time.map(|time| i64::try_from(time.get()).unwrap_or(i64::MAX) * sign)
            }
            ValueKind::Bytes => {
                let bytes = text.parse::<Bytes>().map_err(|error| error.fault());
                bytes.map(|bytes| i64::try_from(bytes.get()).unwrap_or(i64::MAX))
            }
            ValueKind::Number => text
                .parse::<u32>()
                .map(i64::from)
                .map_err(|_| fault!("'{}' is not a number up to {}", token.shown(), u32::MAX)),
        };
        parsed.map_err(|why| token.error(why.or_hint(hint)))
    }
}

/// What a condition can be.
fn conditions() -> String {
    let compared = QUANTITIES.iter().map(|(name, ..)| *name);
    let flags = FLAGS.iter().map(|(name, _)| *name);
    let flags = flags.filter(|flag| *flag != "lost-before");
    let words: Vec<&str> = ["flow", "port"].into_iter().chain(compared).chain(flags).collect();
    format!("write one of {}", words.join(", "))
}

/// So that a [`Flag`] with a quantity of the same name is known to be one.
const _: () = assert!(matches!(FLAGS[FLAGS.len() - 1].1, Flag::LostBefore));
