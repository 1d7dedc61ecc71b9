//! The frame of every page: head, policy, style and script.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use crate::pictures::STYLE;
use crate::text::style::clean;

/// What every page begins with, by which a file is known as ours.
pub const MARK: &str = "<!DOCTYPE html><!-- Wirebeat -->";

const PAGE_STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// A page with this title.
pub(crate) fn page(title: &str, main: &Markup) -> String {
    let style = format!("{STYLE}{PAGE_STYLE}");
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&style),
        hash(SCRIPT)
    );
    let body = html! {
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                // without it, browsers ask a server for one
                link rel="icon" href="data:,";
                title { (clean(title)) }
                style { (PreEscaped(&style)) }
            }
            body {
                main { (main) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    debug_assert_eq!(DOCTYPE.0, "<!DOCTYPE html>");
    format!("{MARK}{}\n", body.into_string())
}

/// A page with a text as it is.
pub(crate) fn plain(text: &str) -> String {
    let main = html! {
        h1 { "Wirebeat" }
        pre { (wirebeat_units::printable::printable_lines(text)) }
    };
    page("Wirebeat", &main)
}

/// What names an inline style or script in a policy (CSP level 3, §2.3.1).
fn hash(content: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(content.as_bytes())))
}
