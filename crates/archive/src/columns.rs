//! Tables as archives: which of their columns is the time, which the device and which the data.
//!
//! Here are names, numbers and choices alone, the same for every kind of table. What a field holds, and how it is
//! read, stands with its format.

use std::fmt;
use std::str::FromStr;

use wirebeat_units::{Fault, fault, into_fault};

use crate::forms::DataForm;
use crate::table::Part;
use crate::time_series::Device;

/// Names of columns that are the time, the first that is there; without regard to case.
const TIMES: [&str; 8] =
    ["timestamp", "time", "datetime", "date_time", "ts", "date", "time_us", "utc"];
/// Names of columns that are the device, the first that is there.
const DEVICES: [&str; 10] = [
    "device",
    "sensor",
    "station",
    "device_id",
    "sensor_id",
    "station_id",
    "id",
    "source",
    "symbol",
    "name",
];
/// The most names that a message lists.
const LISTED_MAX: usize = 12;

/// A column, by its name or its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The one that is called so.
    Name(String),
    /// The one at this place, counted from 1.
    Number(usize),
}

/// Where devices come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceFrom {
    /// A column whose name says so: device, sensor, station and the like.
    #[default]
    Guess,
    /// This column.
    Column(Column),
    /// All records are of this one.
    Fixed(Device),
}

/// Which columns are what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    /// The time; `None`: the one whose name says so.
    pub time: Option<Column>,
    /// The device.
    pub device: DeviceFrom,
    /// The data; `None`: all that are left.
    pub data: Option<Column>,
}

/// Columns of one table, by their places, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The time.
    pub time: usize,
    /// The device, or the one that all are of.
    pub device: Result<usize, Device>,
    /// The data, in their order in the table.
    pub data: Vec<usize>,
}

/// Columns that a table does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BadColumns {
    /// Not this one.
    Missing {
        /// Which.
        column: String,
        /// Those there are.
        names: Vec<String>,
    },
    /// More than one of this name.
    Twice(String),
    /// None that looks like the time.
    Time(Vec<String>),
    /// None that looks like the device.
    Device(Vec<String>),
}

impl BadColumns {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BadColumns::Missing { column, names } => {
                fault!("there is no column '{column}'"; "it has {}", list(names))
            }
            BadColumns::Twice(it) => {
                fault!(
                    "two columns are called '{it}'";
                    "say by its number, from 1, which one it is"
                )
            }
            BadColumns::Time(it) => {
                fault!(
                    "which column is the time is not clear";
                    "say it with --time-column, of {}", list(it)
                )
            }
            BadColumns::Device(it) => {
                fault!(
                    "which column is the device is not clear";
                    "say it with --device-column, of {}, or give all records one with --device",
                    list(it)
                )
            }
        }
    }
}

into_fault!(BadColumns);

/// Names for a message.
fn list(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(LISTED_MAX).map(|name| format!("'{name}'")).collect();
    let more = if names.len() > LISTED_MAX { " and more" } else { "" };
    shown.join(", ") + more
}

impl FromStr for Column {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Column, Fault> {
        match text.parse() {
            Ok(0) => Err("columns are numbered from 1".into()),
            Ok(number) => Ok(Column::Number(number)),
            Err(_) if text.is_empty() => {
                Err(fault!("this is not a column"; "write its name, or its number from 1"))
            }
            Err(_) => Ok(Column::Name(text.to_owned())),
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Column::Name(name) => f.write_str(name),
            Column::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Column {
    /// Its place among `names`.
    fn find(&self, names: &[String]) -> Result<usize, BadColumns> {
        let missing = || BadColumns::Missing { column: self.to_string(), names: names.to_vec() };
        match self {
            Column::Number(number) => match number.checked_sub(1) {
                Some(at) if at < names.len() => Ok(at),
                _ => Err(missing()),
            },
            Column::Name(wanted) => {
                let mut found = (0..names.len()).filter(|&at| names[at].trim() == wanted.trim());
                match (found.next(), found.next()) {
                    (Some(at), None) => Ok(at),
                    (Some(_), Some(_)) => Err(BadColumns::Twice(wanted.clone())),
                    (None, _) => Err(missing()),
                }
            }
        }
    }
}

impl Chosen {
    /// The column of a part of records, or the first of them.
    pub fn column(&self, part: Part) -> Option<usize> {
        match part {
            Part::Time => Some(self.time),
            Part::Device => self.device.ok(),
            Part::Data => self.data.first().copied(),
        }
    }
}

impl Columns {
    /// Finds them in a table with columns of these names.
    ///
    /// # Errors
    /// Where one is not there, or it is not clear which is meant.
    pub fn find(&self, names: &[String]) -> Result<Chosen, BadColumns> {
        let time = match &self.time {
            Some(column) => column.find(names)?,
            None => guess(&TIMES, names).ok_or_else(|| BadColumns::Time(names.to_vec()))?,
        };
        let device = match &self.device {
            DeviceFrom::Fixed(device) => Err(*device),
            DeviceFrom::Column(column) => Ok(column.find(names)?),
            DeviceFrom::Guess => Ok(guess(&DEVICES, names)
                .filter(|&at| at != time)
                .ok_or_else(|| BadColumns::Device(names.to_vec()))?),
        };
        let data = match &self.data {
            Some(column) => vec![column.find(names)?],
            None => (0..names.len()).filter(|&at| at != time && Ok(at) != device).collect(),
        };
        Ok(Chosen { time, device, data })
    }
}

/// The column whose name is one of these: of the first name that is there.
fn guess(known: &[&str], names: &[String]) -> Option<usize> {
    known.iter().find_map(|known| {
        let mut found = (0..names.len()).filter(|&at| names[at].trim().eq_ignore_ascii_case(known));
        // two of one name are a guess too many
        found.next().filter(|_| found.next().is_none())
    })
}

/// What the name of a column says of the form of its data: `data_hex`, `data_base64`.
pub fn form_of(name: &str) -> DataForm {
    let name = name.trim().to_ascii_lowercase();
    [DataForm::Hex, DataForm::Base64]
        .into_iter()
        .find(|form| name.ends_with(&format!("_{}", form.name())))
        .unwrap_or(DataForm::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn column(text: &str) -> Column {
        text.parse().unwrap()
    }

    #[test]
    fn obvious_names_are_found_and_the_rest_is_data() {
        for (table, time, device, data) in [
            (&["time", "device", "data"][..], 0, 1, &[2][..]),
            (&["Station", " Timestamp ", "value", "unit"], 1, 0, &[2, 3]),
            (&["date", "time", "id"], 1, 2, &[0]),
        ] {
            let chosen = Columns::default().find(&names(table)).unwrap();
            assert_eq!((chosen.time, chosen.device), (time, Ok(device)), "{table:?}");
            assert_eq!(chosen.data, data, "{table:?}");
        }
    }

    #[test]
    fn columns_have_names_and_numbers() {
        let table = names(&["a", "b", "c", "c"]);
        let fixed = DeviceFrom::Fixed(Device([7; 16]));
        let columns = Columns { time: Some(column("2")), device: fixed, data: Some(column("a")) };
        let chosen = columns.find(&table).unwrap();
        assert_eq!(chosen, Chosen { time: 1, device: Err(Device([7; 16])), data: vec![0] });
        let told = |text: &str| {
            let columns = Columns { time: Some(column(text)), ..columns.clone() };
            columns.find(&table).unwrap_err().to_string()
        };
        assert_eq!(told("x"), "there is no column 'x'; it has 'a', 'b', 'c', 'c'");
        assert_eq!(told("5"), "there is no column '5'; it has 'a', 'b', 'c', 'c'");
        assert!(told("c").starts_with("two columns are called 'c'"));
        assert!("0".parse::<Column>().is_err() && "".parse::<Column>().is_err());
    }

    #[test]
    fn what_is_not_clear_is_told() {
        let told = |table: &[&str]| Columns::default().find(&names(table)).unwrap_err().to_string();
        assert!(told(&["a", "b"]).contains("--time-column, of 'a', 'b'"));
        assert!(told(&["time", "b"]).contains("--device-column"));
        assert!(told(&["time", "time", "id"]).contains("--time-column"));
    }

    #[test]
    fn names_say_the_form_of_data() {
        assert_eq!(form_of("data_hex"), DataForm::Hex);
        assert_eq!(form_of("Payload_BASE64"), DataForm::Base64);
        assert_eq!(form_of("hex"), DataForm::Text);
    }
}
