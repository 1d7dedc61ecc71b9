//! Whole numbers in `(( … ))`: the four rules, remainders, comparisons, and variables.

use super::word::{is_name, is_variable};

/// How deep parentheses may be nested.
const MAX_DEPTH: usize = 32;

/// The value of an expression; `None` where it is none that is read.
pub(super) fn value(text: &str, variable: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut expression = Expression { rest: text.trim(), variable };
    let value = expression.binary(0, 0)?;
    expression.rest.is_empty().then_some(value)
}

/// A variable that a calculation changes.
pub(super) struct Assigned {
    pub name: String,
    /// What it is then.
    pub after: i64,
    /// The value of the calculation; that of `i++` is what it was before.
    pub value: i64,
}

/// What `i=1`, `i++`, `i+=2` and the like make of a variable.
pub(super) fn assignment(text: &str, variable: &dyn Fn(&str) -> Option<i64>) -> Option<Assigned> {
    let text = text.trim();
    let plain = |name: &str, after| Some(Assigned { name: name.to_owned(), after, value: after });
    for (sign, step) in [("++", 1), ("--", -1)] {
        if let Some(name) = text.strip_prefix(sign).map(str::trim).filter(|name| is_variable(name))
        {
            return plain(name, variable(name)?.checked_add(step)?);
        }
        if let Some(name) = text.strip_suffix(sign).map(str::trim).filter(|name| is_variable(name))
        {
            let value = variable(name)?;
            return Some(Assigned {
                name: name.to_owned(),
                after: value.checked_add(step)?,
                value,
            });
        }
    }
    let (before, right) = text.split_once('=')?;
    let (name, operator) = match before.strip_suffix(['+', '-', '*', '/', '%']) {
        Some(name) => (name, before.get(name.len()..)),
        None => (before, None),
    };
    let name = name.trim();
    // `==` compares.
    if !is_variable(name) || right.starts_with('=') {
        return None;
    }
    let right = value(right, variable)?;
    plain(
        name,
        match operator {
            None => right,
            Some(operator) => {
                let (_, _, operation) = OPERATORS.iter().find(|(text, _, _)| *text == operator)?;
                operation(variable(name)?, right)?
            }
        },
    )
}

struct Expression<'a> {
    rest: &'a str,
    variable: &'a dyn Fn(&str) -> Option<i64>,
}

type Operation = fn(i64, i64) -> Option<i64>;

/// Operators with their rank; longer ones first.
const OPERATORS: [(&str, u8, Operation); 11] = [
    ("<=", 0, |a, b| Some((a <= b).into())),
    (">=", 0, |a, b| Some((a >= b).into())),
    ("==", 0, |a, b| Some((a == b).into())),
    ("!=", 0, |a, b| Some((a != b).into())),
    ("<", 0, |a, b| Some((a < b).into())),
    (">", 0, |a, b| Some((a > b).into())),
    ("+", 1, i64::checked_add),
    ("-", 1, i64::checked_sub),
    ("*", 2, i64::checked_mul),
    ("/", 2, i64::checked_div),
    ("%", 2, i64::checked_rem),
];

impl Expression<'_> {
    fn binary(&mut self, rank: u8, depth: usize) -> Option<i64> {
        let mut left =
            if rank > 2 { return self.operand(depth) } else { self.binary(rank + 1, depth)? };
        loop {
            let found = OPERATORS.iter().find(|(text, _, _)| self.rest.starts_with(text));
            let Some((text, _, operation)) = found.filter(|(_, of, _)| *of == rank) else {
                return Some(left);
            };
            self.rest = self.rest.get(text.len()..)?.trim_start();
            let right = self.binary(rank + 1, depth)?;
            left = operation(left, right)?;
        }
    }

    fn operand(&mut self, depth: usize) -> Option<i64> {
        if depth > MAX_DEPTH {
            return None;
        }
        if let Some(inside) = self.rest.strip_prefix('(') {
            self.rest = inside.trim_start();
            let value = self.binary(0, depth + 1)?;
            self.rest = self.rest.strip_prefix(')')?.trim_start();
            return Some(value);
        }
        if let Some(negative) = self.rest.strip_prefix('-') {
            self.rest = negative.trim_start();
            return self.operand(depth + 1)?.checked_neg();
        }
        if let Some(rest) = self.rest.strip_prefix('$') {
            let braced = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
            let (name, rest) = match braced {
                Some(both) => both,
                // Of arguments the name is one character.
                None if rest.starts_with(|c: char| c == '#' || c.is_ascii_digit()) => {
                    rest.split_at_checked(1)?
                }
                None => split_name(rest),
            };
            self.rest = rest.trim_start();
            return (self.variable)(name);
        }
        let (word, rest) = split_name(self.rest);
        self.rest = rest.trim_start();
        match word.chars().next()? {
            c if c.is_ascii_digit() => {
                crate::number::c_number(word).and_then(|number| i64::try_from(number).ok())
            }
            _ => (self.variable)(word),
        }
    }
}

fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !is_name(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<i64> {
        match name {
            "x" => Some(5),
            "1" => Some(50),
            "#" => Some(2),
            _ => None,
        }
    }

    #[test]
    fn expressions_are_those_of_the_shell() {
        for (text, expected) in [
            ("1 + 2 * 3", Some(7)),
            ("(1+2)*3", Some(9)),
            ("x - 1", Some(4)),
            ("$x % 3 == 2", Some(1)),
            ("-x", Some(-5)),
            ("$1 + 1", Some(51)),
            ("${x}*$#", Some(10)),
            ("$", None),
            ("${x", None),
            ("10 - 3 - 2", Some(5)),
            ("x <= 4", Some(0)),
            ("1 / 0", None),
            ("y", None),
            ("1 +", None),
            ("", None),
            ("9223372036854775807 + 1", None),
        ] {
            assert_eq!(value(text, &of), expected, "{text}");
        }
        assert_eq!(value(&"(".repeat(100_000), &of), None);
        assert_eq!(value(&"-".repeat(100_000), &of), None);
    }

    #[test]
    fn assignments_change_a_variable() {
        for (text, expected) in [
            ("i = 1", 1),
            ("x++", 6),
            ("++x", 6),
            ("x += 2", 7),
            ("x--", 4),
            ("x*=2", 10),
            ("x %= 3", 2),
        ] {
            assert_eq!(assignment(text, &of).map(|done| done.after), Some(expected), "{text}");
        }
        assert_eq!(assignment("x ++", &of).map(|done| done.value), Some(5));
        for text in ["i == 1", "x <= 1", "x != 1", "= 1", "x /= 0", "x", "", "++", "x y = 1"] {
            assert!(assignment(text, &of).is_none(), "{text}");
        }
    }
}
