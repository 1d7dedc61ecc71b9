//! `wirebeat archive verify`: whether all of an archive is as it should be.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde::Serialize;
use wirebeat_archive::time_series::{
    Bad, Defect, LeftOut, OnBad, Place, ReadError, Reading, Tally,
};
use wirebeat_report::text::WIDTH;
use wirebeat_report::text::style::{Style, clean, hang};
use wirebeat_run::Exit;
use wirebeat_units::Fault;
use wirebeat_units::human::{self, counted};

use super::work::archive_from;
use crate::failure::Failure;
use crate::output::{Answer, AnswerFiles, Output};
use crate::replay::beginning;

/// What lengths in the other byte order are called.
const TURNED: &str = "with lengths in the other byte order";
/// What reading all of it does not find.
const UNSEEN: &str = "records have no checksum: changed bits in data, or in a time or a device that is valid with them, are not found";

/// Read all of an archive, and say what is wrong with it
///
/// Every record is looked at: its length, its time, and whether it is earlier than the one before. Records have no
/// checksum, so changed bits in their data are not found. Exit code 1 when anything is wrong.
#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The archive; '-' reads standard input
    #[arg(value_name = "ARCHIVE")]
    archive: PathBuf,
    /// Which byte of a record's length comes first: the big or the little end
    #[arg(long, value_name = "END", default_value = "big", value_parser = super::byte_order)]
    length_order: wirebeat_archive::time_series::ByteOrder,
    #[command(flatten)]
    pub results: AnswerFiles,
}

/// What was found.
#[derive(Serialize)]
struct VerifyDocument {
    archive: String,
    ok: bool,
    /// That are right.
    records: u64,
    bytes: u64,
    /// Of no record.
    skipped_bytes: u64,
    bad: Vec<Kind>,
}

/// Places with one kind of mistake.
#[derive(Serialize)]
struct Kind {
    kind: &'static str,
    /// Places.
    count: u64,
    /// Those of them that are one record; how many were at the others is not known.
    records: u64,
    bytes: u64,
    first: First,
}

#[derive(Serialize)]
struct First {
    #[serde(flatten)]
    place: Place,
    #[serde(serialize_with = "sentence")]
    message: Fault,
}

fn sentence<S: serde::Serializer>(fault: &Fault, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(fault)
}

/// Verifies.
pub fn run(args: &Args, output: &mut Output) -> Result<u8, Failure> {
    let reading = Reading { order: args.length_order, on_bad: OnBad::Skip, any_order: false };
    beginning::check_archive(&args.archive, reading.on_bad)?;
    let (work, mut archive) = archive_from(&args.archive, reading, Place::default())?;
    let mut turned = None;
    loop {
        match archive.advance() {
            Ok(true) if archive.tally().records.is_multiple_of(TELL_EVERY) => {
                let tally = archive.tally();
                work.at(tally.records, tally.read());
            }
            Ok(true) => {}
            Ok(false) => break,
            // nothing of such an archive can be read
            Err(ReadError::Bad { bad, .. }) => {
                turned = Some(bad);
                break;
            }
            Err(error) => return Err(work.failure(&error)),
        }
    }
    work.end();
    let found = document(archive.name(), archive.tally(), turned);
    let code = if found.ok { Exit::Done } else { Exit::Unfinished };
    let text = |colour| text(&found, Style::new(colour));
    Ok(output.result(code.code(), &Answer { document: &found, text }))
}

/// How often the bar is told the number of records.
const TELL_EVERY: u64 = 1 << 16;

fn document(name: &str, tally: &Tally, turned: Option<Bad>) -> VerifyDocument {
    let kind = |kind, bad: LeftOut| {
        let LeftOut { places: count, records, bytes, first } = bad;
        let first = first.map(|bad| First { place: bad.place, message: bad.defect.fault() })?;
        Some(Kind { kind, count, records, bytes, first })
    };
    let turned = turned.map(|bad| LeftOut { places: 1, first: Some(bad), ..LeftOut::default() });
    let counted = tally.bad.iter().copied().zip(Defect::KINDS);
    let counted = counted.chain(turned.map(|bad| (bad, TURNED)));
    let bad: Vec<Kind> = counted.filter_map(|(bad, name)| kind(name, bad)).collect();
    VerifyDocument {
        archive: name.to_owned(),
        ok: bad.is_empty(),
        records: tally.records,
        bytes: tally.bytes,
        skipped_bytes: tally.skipped,
        bad,
    }
}

fn text(found: &VerifyDocument, style: Style) -> String {
    let name = style.strong(&clean(&found.archive));
    let records =
        format!("{} in {}", counted(found.records, "record"), human::bytes(found.bytes as f64));
    if found.ok {
        return format!("{name}: {records}, nothing wrong\n{}\n", hang("  note: ", UNSEEN, WIDTH));
    }
    let wrong = found.bad.iter().filter(|kind| kind.kind != TURNED);
    let (all, known) =
        wrong.fold((0, 0), |(all, known), kind| (all + kind.count, known + kind.records));
    let what = match all {
        0 => "all of it".to_owned(),
        all => super::places(all, known),
    };
    let mut text = format!("{name}: {}: {what}; {records} are right\n", style.bad("wrong"));
    if found.skipped_bytes > 0 {
        text += &format!("  {} are in no valid record\n", counted(found.skipped_bytes, "byte"));
    }
    for kind in &found.bad {
        text += &format!("  {} {}\n", human::count(kind.count), kind.kind);
        let first = &kind.first;
        let Fault { what, hint } = &first.message;
        let before = if kind.count > 1 { "the first is " } else { "" };
        text += &hang("    ", &format!("{before}{}: {what}", first.place), WIDTH);
        text.push('\n');
        if let Some(hint) = hint.as_ref().filter(|_| kind.kind == TURNED) {
            text += &format!("  hint: {hint}\n");
        }
    }
    if found.bad.iter().all(|kind| kind.kind != TURNED) {
        text += "  hint: 'wirebeat archive slice ARCHIVE NEW --on-bad skip' writes an archive of what is right\n";
    }
    text
}
