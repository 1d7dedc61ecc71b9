//! SPDX licence expressions (SPDX 2.3, annex D): whether what a list allows is enough for one.

use std::fmt;

/// Why an expression cannot be judged.
#[derive(Debug, PartialEq, Eq)]
pub struct Unclear(String);

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether the licences in `allowed` satisfy `expression`. A licence with an exception is one of its own:
/// `Apache-2.0 WITH LLVM-exception`. The old form `MIT/Apache-2.0` means `OR`.
pub fn satisfied(expression: &str, allowed: &[&str]) -> Result<bool, Unclear> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let result = any(&mut rest, allowed).and_then(|satisfied| match rest {
        [] => Ok(satisfied),
        [word, ..] => Err(Unclear(format!("'{word}' does not belong there"))),
    });
    result.map_err(|Unclear(why)| Unclear(format!("'{expression}': {why}")))
}

/// Terms between `OR`, which binds the weakest.
fn any(rest: &mut &[&str], allowed: &[&str]) -> Result<bool, Unclear> {
    let mut satisfied = all(rest, allowed)?;
    while take(rest, "OR") {
        satisfied |= all(rest, allowed)?;
    }
    Ok(satisfied)
}

/// Terms between `AND`.
fn all(rest: &mut &[&str], allowed: &[&str]) -> Result<bool, Unclear> {
    let mut satisfied = one(rest, allowed)?;
    while take(rest, "AND") {
        satisfied &= one(rest, allowed)?;
    }
    Ok(satisfied)
}

/// A licence, or an expression in parentheses.
fn one(rest: &mut &[&str], allowed: &[&str]) -> Result<bool, Unclear> {
    if take(rest, "(") {
        let satisfied = any(rest, allowed)?;
        return if take(rest, ")") { Ok(satisfied) } else { Err(Unclear("')' is missing".into())) };
    }
    let licence = name(rest)?;
    if !take(rest, "WITH") {
        return Ok(allowed.contains(&licence));
    }
    let licence = format!("{licence} WITH {}", name(rest)?);
    Ok(allowed.contains(&licence.as_str()))
}

fn name<'a>(rest: &mut &[&'a str]) -> Result<&'a str, Unclear> {
    match rest.split_first() {
        Some((&word, after)) if !["OR", "AND", "WITH", "(", ")"].contains(&word) => {
            *rest = after;
            Ok(word)
        }
        _ => Err(Unclear("a licence is missing".into())),
    }
}

/// Takes `word` if it comes next.
fn take(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((&first, after)) if first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

#[test]
fn expressions_are_judged_as_the_standard_says() {
    let judge = |expression| satisfied(expression, &["MIT", "BSD-3-Clause"]);
    assert_eq!(judge("MIT"), Ok(true));
    assert_eq!(judge("GPL-3.0-only"), Ok(false));
    assert_eq!(judge("GPL-3.0-only OR MIT"), Ok(true));
    assert_eq!(judge("GPL-3.0-only/MIT"), Ok(true));
    assert_eq!(judge("GPL-3.0-only AND MIT"), Ok(false));
    // AND binds more strongly than OR.
    assert_eq!(judge("MIT OR GPL-3.0-only AND GPL-2.0-only"), Ok(true));
    assert_eq!(judge("(MIT OR GPL-3.0-only) AND GPL-2.0-only"), Ok(false));
    assert_eq!(judge("(GPL-2.0-only OR MIT) AND BSD-3-Clause"), Ok(true));
}

#[test]
fn an_exception_is_allowed_by_its_own_name_only() {
    let with = "Apache-2.0 WITH LLVM-exception";
    assert_eq!(satisfied(with, &["Apache-2.0"]), Ok(false));
    assert_eq!(satisfied(with, &[with]), Ok(true));
}

#[test]
fn what_is_no_expression_satisfies_nothing() {
    for expression in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT MIT", "MIT WITH", "()"] {
        assert!(satisfied(expression, &["MIT"]).is_err(), "{expression}");
    }
}
