//! A study: chapters of text, tables and pictures on one page, written down by a program that measured them.
//!
//! Pure: what is said was computed by the caller. The page is that of `html/`, so that it needs nothing else: no network, no font,
//! no script. A picture stands beside the sentence that says what it shows.

use maud::{Markup, PreEscaped, html};

use crate::html::{page, scroll, told};
use crate::pictures::Picture;

/// A study.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// When and how long, in a line.
    pub when: String,
    /// What came of it, in sentences.
    pub summary: Vec<String>,
    /// Where and how: names and what they are.
    pub facts: Vec<(String, String)>,
    /// The commands that repeat it.
    pub commands: Vec<String>,
    /// The chapters, in their order.
    pub chapters: Vec<Chapter>,
    /// The version that made it.
    pub version: String,
}

/// A chapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chapter {
    /// Its heading.
    pub title: String,
    /// What is in it, in its order.
    pub blocks: Vec<Block>,
}

/// A part of a chapter.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// A heading within the chapter.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A list.
    List(Vec<String>),
    /// Pictures side by side, each with a sentence that says what it shows.
    Pictures(Vec<(Picture, String)>),
    /// A table.
    Table(Table),
}

/// A table: its first column has names, the others figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it holds, in a few words.
    pub title: String,
    /// What stands above its columns.
    pub heads: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Whether its cells are words and not figures.
    pub words: bool,
}

impl Table {
    /// An empty table of figures.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Table {
        let heads = heads.iter().map(|&head| head.to_owned()).collect();
        Table { title: title.into(), heads, ..Table::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl Study {
    /// The whole as an HTML file.
    pub fn html(&self) -> String {
        let main = html! {
            h1 { (told(&self.title)) }
            p.dim { (told(&self.when)) }
            @if !self.summary.is_empty() {
                section {
                    h2 { "What came of it" }
                    ul.findings { @for sentence in &self.summary { li { (told(sentence)) } } }
                }
            }
            (contents(&self.chapters))
            section {
                h2 { "Where and how" }
                dl.facts { @for (name, is) in &self.facts { dt { (told(name)) } dd { (told(is)) } } }
                @for command in &self.commands { pre.shell { (told(command)) } }
            }
            @for (number, chapter) in self.chapters.iter().enumerate() { (chapter_of(number, chapter)) }
            footer { "Made by wirebeat " (told(&self.version)) "." }
        };
        page(&self.title, &main)
    }
}

fn contents(chapters: &[Chapter]) -> Markup {
    html! {
        nav aria-label="Chapters" {
            ol { @for (number, chapter) in chapters.iter().enumerate() {
                li { a href=(format!("#c{}", number + 1)) { (told(&chapter.title)) } }
            } }
        }
    }
}

fn chapter_of(number: usize, chapter: &Chapter) -> Markup {
    let number = number + 1;
    html! {
        section id=(format!("c{number}")) {
            h2 { (number) ". " (told(&chapter.title)) }
            @for block in &chapter.blocks { (block_of(block)) }
        }
    }
}

fn block_of(block: &Block) -> Markup {
    match block {
        Block::Heading(text) => html! { h3 { (told(text)) } },
        Block::Text(text) => html! { p { (told(text)) } },
        Block::List(all) => html! { ul.findings { @for text in all { li { (told(text)) } } } },
        Block::Pictures(all) => html! {
            div.gallery { @for (picture, says) in all {
                figure { (PreEscaped(picture.element())) figcaption { (told(says)) } }
            } }
        },
        Block::Table(table) => table_of(table),
    }
}

fn table_of(table: &Table) -> Markup {
    let figures = !table.words;
    let inner = html! {
        table {
            thead { tr { @for (place, head) in table.heads.iter().enumerate() {
                th.n[figures && place > 0] scope="col" { (told(head)) }
            } } }
            tbody { @for row in &table.rows { tr { @for (place, cell) in row.iter().enumerate() {
                // the style breaks names in a `th` anywhere, which leaves no width to names of tools
                @if place == 0 { td role="rowheader" { strong { (told(cell)) } } }
                @else if figures { td.n { (told(cell)) } }
                @else { td.wrap { (told(cell)) } }
            } } } }
        }
    };
    html! {
        h3 { (told(&table.title)) }
        (scroll(&table.title, &inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::means::{MeanRow, means};
    use crate::pictures::scale::Unit;

    fn study(name: &str) -> Study {
        let row = MeanRow { name: name.into(), mean: Some(3.0), within: None, second: false };
        let picture = means("means", name, &[row], Some((4.0, "limit")), Unit::Count);
        let mut table = Table::new(name, &["tool", "figure"]);
        table.row(vec![name.into(), name.into()]);
        let blocks = vec![
            Block::Heading(name.into()),
            Block::Text(name.into()),
            Block::List(vec![name.into()]),
            Block::Pictures(vec![(picture, name.into())]),
            Block::Table(table),
        ];
        Study {
            title: name.into(),
            when: name.into(),
            summary: vec![name.into()],
            facts: vec![(name.into(), name.into())],
            commands: vec![name.into()],
            chapters: vec![Chapter { title: name.into(), blocks }],
            version: name.into(),
        }
    }

    #[test]
    fn all_parts_of_a_study_are_on_its_page() {
        let page = study("Iperf and others").html();
        assert!(page.starts_with(crate::html::MARK));
        assert!(page.contains("<h2>1. Iperf and others</h2>") && page.contains("href=\"#c1\""));
        assert!(page.contains("<svg") && page.contains("<figcaption>Iperf and others<"));
        assert!(!page.contains("http://") || page.matches("http://").count() == 1, "its own name");
    }

    #[test]
    fn nothing_in_a_name_acts() {
        let page = study("</script><script>alert(1)</script>\u{1b}[31m\u{202e}").html();
        assert!(!page.contains("<script>alert") && !page.contains('\u{1b}'));
        assert!(!page.contains('\u{202e}'));
    }
}
