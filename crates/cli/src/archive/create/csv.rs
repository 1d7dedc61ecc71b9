//! An archive from comma-separated values.

use std::path::Path;

use clap::Args as ClapArgs;
use wirebeat_trace::csv::{Layout, Names, Reader, Reading};
use wirebeat_trace::forms::DataForm;

use super::{Args, made, make};
use crate::archive::{name, open};
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
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        &[byte] if !matches!(byte, b'"' | b'\r' | b'\n') => Ok(byte),
        _ => Err(format!("'{text}' cannot separate fields; write one character of ASCII, or tab")),
    }
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
        names: if csv.no_names { Names::Numbers } else { Names::FirstLine },
    };
    let reading =
        Reading { layout, on_bad: table.on_bad.unwrap_or_default(), any_order: table.any_order };
    let input = open(path)?;
    let mut source = Reader::new(input.from, name(path), reading)
        .map_err(|error| Failure::usage(&error.to_string()))?;
    let records = make(&mut source, input.len, &args.output)?;
    made(records, source.tally());
    Ok(0)
}
