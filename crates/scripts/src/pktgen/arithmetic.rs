//! Whole numbers in `(( … ))`: the four rules, remainders, comparisons, and variables.

/// How deep parentheses may be nested.
const MAX_DEPTH: usize = 32;

/// The value of an expression; `None` where it is none that is read.
pub(super) fn value(text: &str, variable: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let mut expression = Expression { rest: text.trim(), variable };
    let value = expression.binary(0, 0)?;
    expression.rest.is_empty().then_some(value)
}

/// What `i=1`, `i++`, `i+=2` and the like make of a variable.
pub(super) fn assignment(
    text: &str,
    variable: &dyn Fn(&str) -> Option<i64>,
) -> Option<(String, i64)> {
    let text = text.trim();
    let name_end = text.find(|c: char| !super::lexer::is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_end);
    if name.is_empty() {
        let name = text.strip_prefix("++")?.trim();
        return Some((name.to_owned(), variable(name)?.checked_add(1)?));
    }
    let rest = rest.trim();
    let of = |text: &str| value(text, variable);
    let value_after = match rest {
        "++" => variable(name)?.checked_add(1)?,
        "--" => variable(name)?.checked_sub(1)?,
        _ => match rest.split_at_checked(rest.find('=')?)? {
            ("", right) if !right.starts_with("==") => of(right.get(1..)?)?,
            ("+", right) => variable(name)?.checked_add(of(right.get(1..)?)?)?,
            ("-", right) => variable(name)?.checked_sub(of(right.get(1..)?)?)?,
            ("*", right) => variable(name)?.checked_mul(of(right.get(1..)?)?)?,
            _ => return None,
        },
    };
    Some((name.to_owned(), value_after))
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
        let text = self.rest.strip_prefix('$').unwrap_or(self.rest);
        let end = text.find(|c: char| !super::lexer::is_name(c)).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest.trim_start();
        match word.chars().next()? {
            c if c.is_ascii_digit() => {
                crate::number::c_number(word).and_then(|number| i64::try_from(number).ok())
            }
            _ => (self.variable)(word),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<i64> {
        (name == "x").then_some(5)
    }

    #[test]
    fn expressions_are_those_of_the_shell() {
        for (text, expected) in [
            ("1 + 2 * 3", Some(7)),
            ("(1+2)*3", Some(9)),
            ("x - 1", Some(4)),
            ("$x % 3 == 2", Some(1)),
            ("-x", Some(-5)),
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
        for (text, expected) in
            [("i = 1", 1), ("x++", 6), ("++x", 6), ("x += 2", 7), ("x--", 4), ("x*=2", 10)]
        {
            assert_eq!(assignment(text, &of).map(|(_, value)| value), Some(expected), "{text}");
        }
        assert_eq!(assignment("i == 1", &of), None);
    }
}
