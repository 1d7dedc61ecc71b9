//! What packetdrill finds of our TCP: the list that `scripts/packetdrill.sh` holds its scripts against, and the page that shows it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::assert_none;

const BEGIN: &str = "<!-- packetdrill: from tests/packetdrill.txt -->\n";
const END: &str = "<!-- packetdrill: end -->\n";

/// A line of the list.
struct Entry {
    state: String,
    name: String,
    reason: String,
}

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name)).unwrap()
}

fn entries() -> Vec<Entry> {
    let text = read("tests/packetdrill.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (state, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (name, reason) = rest.trim().split_once("  ").unwrap_or((rest.trim(), ""));
            Entry { state: state.into(), name: name.into(), reason: reason.into() }
        })
        .collect()
}

/// The tables of the page: how many of each folder, and each script that does not pass; those of a folder with one reason together.
fn tables(entries: &[Entry]) -> String {
    let folder = |entry: &Entry| entry.name.split('/').next().unwrap_or_default().to_owned();
    let mut folders: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for entry in entries {
        let counts = folders.entry(folder(entry)).or_default();
        counts[["pass", "fail", "out"].iter().position(|it| *it == entry.state).unwrap()] += 1;
    }
    let sum = folders.values().fold([0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f]);
    let mut text = String::from("| scripts | pass | fail | out |\n|---|--:|--:|--:|\n");
    let rows = folders.iter().map(|(name, counts)| (name.as_str(), counts));
    for (name, [pass, fail, out]) in rows.chain([("all", &sum)]) {
        text += &format!("| {name} | {pass} | {fail} | {out} |\n");
    }
    text += "\n| script | | why it does not pass |\n|---|---|---|\n";
    let mut told: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.state != "pass") {
        *told.entry((folder(entry), &entry.reason)).or_default() += 1;
    }
    for entry in entries.iter().filter(|entry| entry.state != "pass") {
        let Entry { state, name, reason } = entry;
        match told.remove(&(folder(entry), reason)) {
            Some(count) if count > 5 => {
                text += &format!("| {}/, {count} scripts | {state} | {reason} |\n", folder(entry));
            }
            Some(1) => text += &format!("| {name} | {state} | {reason} |\n"),
            Some(_) => {
                let same = |it: &&Entry| folder(it) == folder(entry) && it.reason == *reason;
                let names: Vec<&str> =
                    entries.iter().filter(same).map(|entry| entry.name.as_str()).collect();
                text += &format!("| {} | {state} | {reason} |\n", names.join(", "));
            }
            None => {}
        }
    }
    text
}

#[test]
fn what_packetdrill_finds_has_a_state_and_a_reason() {
    let entries = entries();
    assert!(entries.len() > 160, "{}", entries.len());
    let wrong = entries.iter().zip(entries.iter().skip(1)).filter_map(|(entry, next)| {
        let Entry { state, name, reason } = entry;
        let has_reason = match state.as_str() {
            "pass" => reason.is_empty(),
            "fail" | "out" => !reason.is_empty(),
            _ => false,
        };
        (!has_reason || name >= &next.name).then(|| format!("{state} {name} {reason}"))
    });
    assert_none(
        &wrong.collect::<Vec<_>>(),
        "pass has no reason, fail and out have one, names are in order",
    );
}

/// `UPDATE_GOLDEN=1` writes the page anew.
#[test]
fn the_page_on_tcp_shows_what_packetdrill_finds() {
    let page = read("docs/tcp.md");
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    let tables = tables(&entries());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        fs::write(root.join("docs/tcp.md"), format!("{before}{BEGIN}{tables}{END}{after}"))
            .unwrap();
        return;
    }
    assert!(shown == tables, "docs/tcp.md differs from tests/packetdrill.txt: UPDATE_GOLDEN=1");
}
