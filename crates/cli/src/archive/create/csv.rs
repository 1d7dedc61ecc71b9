//! An archive from comma-separated values.

use std::io::{Cursor, Read};
use std::path::Path;

use clap::Args as ClapArgs;
use wirebeat_archive::compressed::unpacked;
use wirebeat_archive::csv::{ColumnNames, Layout, Reader, Reading};
use wirebeat_archive::forms::DataForm;
use wirebeat_units::{Fault, fault};

use super::{Args, made, make};
use crate::archive::{cannot_read, name, open};
use crate::failure::Failure;

/// How a file of comma-separated values is written.
#[derive(ClapArgs, Debug)]
#[command(next_help_heading = "Comma-separated values")]
pub struct CsvArgs {
    /// How data is written: text, hex or base64 [default: as a name in _hex or _base64 says, or text]
    #[arg(long, value_name = "FORM", conflicts_with_all = ["parquet", "synthetic"])]
    data_form: Option<DataForm>,
    /// What separates fields: a character, or tab [default: ,]
    #[arg(long, value_name = "CHARACTER", conflicts_with_all = ["parquet", "synthetic"], value_parser = delimiter)]
    delimiter: Option<u8>,
    /// The first line is a record; columns have numbers alone
    #[arg(long, conflicts_with_all = ["parquet", "synthetic"])]
    no_names: bool,
    /// Lines that a quoted field may have; a quote that is not closed by then is an error [default: 1]
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["parquet", "synthetic"],
        value_parser = |text: &str| crate::values::within(text, 1..=QUOTED_LINES_MAX))]
    quoted_lines: Option<u64>,
}

/// Text is looked through again from the next line where a quote is not closed: this often at most.
const QUOTED_LINES_MAX: u64 = 1_000;

fn delimiter(text: &str) -> Result<u8, Fault> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
        _ => {
            let text = text.escape_debug();
            Err(fault!("'{text}' cannot separate fields"; "write one character of ASCII, or tab"))
        }
    }
}

/// Bytes at the head of a capture that say what it is.
const MAGIC: usize = 4;

/// Whether a file begins like a capture: pcap in microseconds or nanoseconds and either byte order, or pcapng.
fn is_capture(head: &[u8]) -> bool {
    const KINDS: [[u8; MAGIC]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    KINDS.iter().any(|kind| kind == head)
}

/// Creates.
pub fn run(args: &Args, path: &Path) -> Result<u8, Failure> {
    let (table, csv) = (&args.table, &args.csv_args);
    let layout = Layout {
        columns: table.columns(),
        time: table.time_form.unwrap_or_default(),
        zone_min: table.zone,
        data: csv.data_form,
        delimiter: csv.delimiter.unwrap_or(b','),
        quoted_lines: csv.quoted_lines.map_or(1, |lines| lines as usize),
        names: if csv.no_names { ColumnNames::Numbers } else { ColumnNames::FirstLine },
    };
    let reading =
        Reading { layout, on_bad: table.on_bad.unwrap_or_default(), any_order: table.any_order };
    let input = open(path)?;
    let (mut from, packing) = unpacked(input.from).map_err(|error| cannot_read(path, &error))?;
    let mut head = Vec::with_capacity(MAGIC);
    let most = u64::try_from(MAGIC).unwrap_or(0);
    from.by_ref().take(most).read_to_end(&mut head).map_err(|error| cannot_read(path, &error))?;
    if is_capture(&head) {
        return Err(Failure::usage("this is a capture, and no comma-separated values")
            .at(format!("--csv {}", path.display()))
            .hint("give it as --pcap"));
    }
    let from = Cursor::new(head).chain(from);
    // how much comes out of a packed file is not known
    let len = input.len.filter(|_| packing.is_none());
    let source =
        Reader::new(from, name(path), reading).map_err(|error| Failure::usage(error.fault()))?;
    let mut source = table.records(source);
    let records = make(&mut source, len, &args.output, |source| Some(source.source().tally()))?;
    made(records, source.source().tally());
    Ok(0)
}
