//! What packetdrill finds of our TCP: the lists that `scripts/packetdrill.sh` holds its scripts against, and the page that shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::assert_none;

/// Scripts from one source.
struct Suite {
    list: &'static str,
    /// What stands before and behind the tables in `docs/tcp.md`.
    marks: [&'static str; 2],
    /// How many scripts there are at least.
    least: usize,
    /// Whether the list is in the order of names; otherwise the first pattern that fits holds.
    is_sorted: bool,
}

const SUITES: [Suite; 2] = [
    Suite {
        list: "tests/packetdrill.txt",
        marks: [
            "<!-- packetdrill: from tests/packetdrill.txt -->\n",
            "<!-- packetdrill: end -->\n",
        ],
        least: 160,
        is_sorted: true,
    },
    Suite {
        list: "tests/packetdrill-freebsd.txt",
        marks: [
            "<!-- packetdrill: from tests/packetdrill-freebsd.txt -->\n",
            "<!-- packetdrill: end of FreeBSD's -->\n",
        ],
        least: 1100,
        is_sorted: false,
    },
];

/// A line of a list.
struct Entry {
    state: String,
    /// For how many scripts it stands.
    count: usize,
    /// A name, or a pattern with `*`.
    name: String,
    reason: String,
}

impl Entry {
    fn folder(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The name as Markdown shows it, with the number of scripts where it is a pattern.
    fn shown(&self) -> String {
        let Entry { name, count, .. } = self;
        if name.contains('*') { format!("`{name}` ({count})") } else { name.clone() }
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name)).unwrap()
}

fn entries(suite: &Suite) -> Vec<Entry> {
    let text = read(suite.list);
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (state, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.trim();
            let counted = rest.split_once(' ').and_then(|(count, rest)| {
                count.parse().ok().map(|count: usize| (count, rest.trim()))
            });
            let (count, rest) = counted.unwrap_or((1, rest));
            let (name, reason) = rest.split_once("  ").unwrap_or((rest, ""));
            Entry { state: state.into(), count, name: name.into(), reason: reason.into() }
        })
        .collect()
}

/// The tables of the page: how many of each folder, and what does not pass; lines of a folder with one reason together.
fn tables(entries: &[Entry]) -> String {
    let mut folders: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for entry in entries {
        let counts = folders.entry(entry.folder()).or_default();
        counts[["pass", "fail", "out"].iter().position(|it| *it == entry.state).unwrap()] +=
            entry.count;
    }
    let sum = folders.values().fold([0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f]);
    let mut text = String::from("| scripts | pass | fail | out |\n|---|--:|--:|--:|\n");
    for (name, [pass, fail, out]) in folders.iter().chain([(&"all", &sum)]) {
        text += &format!("| {name} | {pass} | {fail} | {out} |\n");
    }
    text += "\n| script | | why it does not pass |\n|---|---|---|\n";
    let mut told: BTreeSet<(&str, &str)> = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.state != "pass") {
        if !told.insert((entry.folder(), &entry.reason)) {
            continue;
        }
        let same = |it: &&Entry| it.folder() == entry.folder() && it.reason == entry.reason;
        let alike: Vec<&Entry> = entries.iter().filter(same).collect();
        let count: usize = alike.iter().map(|entry| entry.count).sum();
        let names = if alike.len() > 5 {
            format!("{}/, {count} scripts", entry.folder())
        } else {
            alike.iter().map(|entry| entry.shown()).collect::<Vec<_>>().join(", ")
        };
        text += &format!("| {names} | {} | {} |\n", entry.state, entry.reason);
    }
    text
}

#[test]
fn what_packetdrill_finds_has_a_state_and_a_reason() {
    for suite in &SUITES {
        let entries = entries(suite);
        let count: usize = entries.iter().map(|entry| entry.count).sum();
        assert!(count >= suite.least, "{}: {count}", suite.list);
        let mut names = BTreeSet::new();
        let wrong = entries.iter().filter_map(|entry| {
            let Entry { state, name, reason, .. } = entry;
            let has_reason = match state.as_str() {
                "pass" => reason.is_empty(),
                "fail" | "out" => !reason.is_empty(),
                _ => false,
            };
            let is_last = names.last().is_none_or(|last| last < name);
            let is_new = names.insert(name.clone()) && (is_last || !suite.is_sorted);
            (!has_reason || !is_new).then(|| format!("{state} {name} {reason}"))
        });
        assert_none(
            &wrong.collect::<Vec<_>>(),
            "pass has no reason, fail and out have one, names are there once and in order",
        );
    }
}

/// `UPDATE_GOLDEN=1` writes the page anew.
#[test]
fn the_page_on_tcp_shows_what_packetdrill_finds() {
    let mut page = read("docs/tcp.md");
    let before = page.clone();
    for suite in &SUITES {
        let [begin, end] = suite.marks;
        let (front, rest) = page.split_once(begin).unwrap();
        let (_, behind) = rest.split_once(end).unwrap();
        page = format!("{front}{begin}{}{end}{behind}", tables(&entries(suite)));
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        fs::write(root.join("docs/tcp.md"), page).unwrap();
        return;
    }
    assert!(page == before, "docs/tcp.md differs from the lists of packetdrill's: UPDATE_GOLDEN=1");
}
