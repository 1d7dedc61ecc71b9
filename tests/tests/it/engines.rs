//! One table names the engines: outside of it and of an engine's own module nothing asks which engine it is, only what an
//! engine can do. So a new engine is a row and a module, and no comparison is forgotten.

use crate::assert_none;
use crate::rust::{Code, Token, tokens};
use crate::sources::{File, files};

/// The table, from the root of the repository.
const TABLE: &str = "crates/traffic/src/engines.rs";
/// Where an engine's own module lies that opens it; `NAME.rs` or `NAME/`.
const MODULES: &str = "crates/run/src/engines/";
/// The types whose variants are engines.
const TYPES: [&str; 2] = ["Engine", "EngineChoice"];

/// An engine of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    module: &'a str,
    variant: &'a str,
}

/// The rows of the table: `module Variant { name: …`.
fn rows(source: &str) -> Vec<Row<'_>> {
    let tokens = tokens(source);
    let rows = tokens.windows(5).filter_map(|window| match window.each_ref_text() {
        [module, variant, "{", "name", ":"] if !variant.is_empty() => Some(Row { module, variant }),
        _ => None,
    });
    let is_row = |row: &Row<'_>| {
        row.module.starts_with(char::is_lowercase) && row.variant.starts_with(char::is_uppercase)
    };
    rows.filter(is_row).collect()
}

/// The text of five tokens.
trait Texts<'a> {
    fn each_ref_text(&self) -> [&'a str; 5];
}

impl<'a> Texts<'a> for [Token<'a>] {
    fn each_ref_text(&self) -> [&'a str; 5] {
        std::array::from_fn(|at| self.get(at).map_or("", |token| token.text))
    }
}

/// Where the tokens name a variant that is not `own`, or open all of them: the line, and what stands there.
fn named<'a>(tokens: &[Token<'a>], rows: &[Row<'_>], own: Option<&str>) -> Vec<(usize, &'a str)> {
    let is_engine = |name: &str| rows.iter().any(|row| row.variant == name && own != Some(name));
    let found = tokens.windows(5).filter_map(|window| match window.each_ref_text() {
        [of, ":", ":", name, _] if TYPES.contains(&of) => {
            (is_engine(name) || ["{", "*"].contains(&name)).then_some((window[0].line, name))
        }
        _ => None,
    });
    found.collect()
}

/// Where an engine is recognised by its name: `engine == "kernel"`.
fn compared(source: &str, rows: &[Row<'_>]) -> Vec<usize> {
    let code = source.lines().take(Code::read(source).lines).enumerate();
    let found = code.filter(|(_, line)| {
        !line.trim_start().starts_with("//")
            && rows.iter().any(|row| {
                let name = format!("\"{}\"", row.module);
                let sides = [format!("== {name}"), format!("!= {name}")];
                line.contains("engine") && sides.iter().any(|side| line.contains(side))
            })
    });
    found.map(|(at, _)| at + 1).collect()
}

/// The engine whose own module a file is part of.
fn owner<'a>(path: &str, rows: &'a [Row<'_>]) -> Option<&'a str> {
    let module = path.strip_prefix(MODULES)?.split(['/', '.']).next()?;
    rows.iter().find(|row| row.module == module).map(|row| row.variant)
}

#[test]
fn engines_are_named_in_their_table_and_their_modules_only() {
    let files = files(&["src"]);
    let table = files.iter().find(|file| file.path == TABLE).expect("the table of engines");
    let rows = rows(&table.text);
    assert!(rows.len() > 5, "{rows:?}");
    let mut violations = Vec::new();
    let program = |file: &&File| file.path.starts_with("crates/") && file.path != TABLE;
    for file in files.iter().filter(program) {
        let own = owner(&file.path, &rows);
        for (line, name) in named(&Code::read(&file.text).tokens, &rows, own) {
            violations.push(format!("{}:{line}: {name}", file.path));
        }
        for line in compared(&file.text, &rows) {
            violations.push(format!("{}:{line}: compared by its name", file.path));
        }
    }
    assert_none(&violations, "places that ask which engine it is: ask its row what it can do");
}

#[test]
fn every_engine_of_the_table_has_a_module() {
    let files = files(&["src"]);
    let table = files.iter().find(|file| file.path == TABLE).expect("the table of engines");
    let rows = rows(&table.text);
    let owned = |row: &Row<'_>| files.iter().any(|f| owner(&f.path, &rows) == Some(row.variant));
    let without: Vec<String> =
        rows.iter().filter(|row| !owned(row)).map(|row| format!("{row:?}")).collect();
    assert_none(&without, "engines without a module");
}

#[test]
fn a_variant_is_found_wherever_it_is_named() {
    let source = "macro_rules! all { () => { one! { kernel Kernel { name: \"kernel\", } null Null { name: \"null\", } } } }";
    let rows = rows(source);
    let expected =
        [Row { module: "kernel", variant: "Kernel" }, Row { module: "null", variant: "Null" }];
    assert_eq!(rows, expected);
    let found = |source, own| named(&tokens(source), &rows, own).len();
    for source in [
        "if engine == Engine::Kernel { 1 }",
        "matches!(x, EngineChoice::Null | EngineChoice::Auto);",
        "use wirebeat_traffic::engines::Engine::{self, Kernel};",
        "use Engine::*; ",
    ] {
        assert_eq!(found(source, None), 1, "{source}");
    }
    assert_eq!(found("Engine::Kernel => 1, Engine::Null => 2", Some("Null")), 1);
    for source in [
        "Engine::ALL.iter()",
        "Engine::$variant => a, b",
        "// Engine::Kernel here",
        "EngineChoice::Auto",
    ] {
        assert_eq!(found(source, None), 0, "{source}");
    }
    assert_eq!(compared("a\nif engine.name() == \"null\" {\n// engine == \"null\"\n", &rows), [2]);
    assert_eq!(owner("crates/run/src/engines/null/port.rs", &rows), Some("Null"));
    assert_eq!(owner("crates/run/src/engines/choice.rs", &rows), None);
}
