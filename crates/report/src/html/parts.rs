//! What pages of one run and of several have in common: tables, galleries, text.

use maud::{Markup, PreEscaped, html};

use crate::columns::Column;
use crate::figures::{Figure, Gallery};
use crate::text::style::clean;

/// Tables with more rows than this can be filtered.
const MANY: usize = 1;

/// A name or a sentence from elsewhere, as one line in which nothing acts.
pub(crate) fn told(text: &str) -> Markup {
    // maud escapes it; what would turn the direction of text is taken out before
    html! { (clean(text)) }
}

/// A table that can be wider than the page.
pub(crate) fn scroll(label: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(clean(label)) { (table) } }
}

/// Cells of a row, with numbers to sort by.
pub(super) fn cells<T>(columns: &[&Column<T>], of: &T) -> Markup {
    html! {
        @for column in columns {
            @match (column.value)(of) {
                Some(number) => td.n data-v=(number.real()) { (column.shown.show(number)) },
                None => td.n { },
            }
        }
    }
}

/// The heads of columns.
pub(super) fn heads<T>(columns: &[&Column<T>]) -> Markup {
    html! { @for column in columns { th.n scope="col" { (column.title) } } }
}

/// The field that filters a table by its first column; only a script can, so that it is hidden without one.
pub(super) fn filter(table: &str, rows: usize) -> Markup {
    html! {
        @if rows > MANY {
            p.filter hidden data-of=(table) {
                label for=(format!("{table}-filter")) { "Filter by name" }
                input id=(format!("{table}-filter")) type="search" autocomplete="off";
                output aria-live="polite" { }
            }
        }
    }
}

/// Pictures under their headings.
pub(crate) fn galleries(galleries: &[Gallery]) -> Markup {
    html! {
        @for gallery in galleries {
            section {
                h2 { (gallery.title) }
                div.gallery { @for figure in &gallery.figures { (figure_of(figure)) } }
            }
        }
    }
}

fn figure_of(figure: &Figure) -> Markup {
    html! {
        @match figure {
            Figure::Picture { picture, note } => figure {
                (PreEscaped(picture.element()))
                @if !note.is_empty() { figcaption { (note) } }
            },
            Figure::Missing { title, why } => figure.missing {
                strong { (title) }
                figcaption { (why) }
            },
        }
    }
}
