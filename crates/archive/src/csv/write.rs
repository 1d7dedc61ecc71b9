//! Writing records as rows that are read back to the byte.

use std::io::{self, Write};

use wirebeat_units::Fault;

use super::rows::append;
use crate::forms::{BadForm, DataForm};
use crate::source::Sink;
use crate::time_series::{Device, Names, Record};

/// Data that cannot be written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub struct NoText(BadForm);

impl NoText {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        let Fault { what, hint } = self.0.fault();
        let how = "with --data-form hex or --data-form base64";
        Fault { what, hint: hint.map(|hint| format!("{hint}, {how}")) }
    }
}

/// Writes records as rows.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    form: DataForm,
    begun: bool,
    /// The row, and a field of it.
    row: Vec<u8>,
    field: Vec<u8>,
    names: Names,
}

impl<W: Write> Writer<W> {
    /// Onto the end of `to`, which should be buffered, with data in this form.
    pub fn new(to: W, form: DataForm) -> Writer<W> {
        Writer {
            to,
            form,
            begun: false,
            row: Vec::new(),
            field: Vec::new(),
            names: Names::default(),
        }
    }

    /// The names of the columns, before the first row.
    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        self.to.write_all(match self.form {
            DataForm::Text => b"time,device,data\n",
            DataForm::Hex => b"time,device,data_hex\n",
            DataForm::Base64 => b"time,device,data_base64\n",
        })
    }

    /// What was written to, flushed.
    ///
    /// # Errors
    /// What it says.
    pub fn finish(mut self) -> io::Result<W> {
        Sink::finish(&mut self)?;
        Ok(self.to)
    }
}

impl<W: Write> Sink for Writer<W> {
    /// # Errors
    /// What `to` says; and [`NoText`], as an error of the kind `InvalidInput`, before anything of the row is written.
    fn write(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.begin()?;
        self.row.clear();
        write!(self.row, "{}", record.time)?;
        self.row.push(b',');
        self.field.clear();
        match self.names.get(record.device) {
            Some(name) => self.field.extend_from_slice(name.as_bytes()),
            None => write!(self.field, "{}", record.device)?,
        }
        append(&self.field, b',', &mut self.row);
        self.row.push(b',');
        let no_text = |why| io::Error::new(io::ErrorKind::InvalidInput, NoText(why));
        match self.form {
            DataForm::Text => {
                self.field.clear();
                self.form.write(record.data, &mut self.field).map_err(no_text)?;
                append(&self.field, b',', &mut self.row);
            }
            form => form.write(record.data, &mut self.row).map_err(no_text)?,
        }
        self.row.push(b'\n');
        self.to.write_all(&self.row)
    }

    fn name(&mut self, device: Device, name: &str) -> io::Result<()> {
        let told = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        self.names.insert(device, name).map(|_| ()).map_err(told)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin()?;
        self.to.flush()
    }
}
