//! The columns of a packet log: their names, types and order, which are the same in Parquet and in CSV.
//!
//! docs/packet-log.md says what each of them means.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::Type;
use wirebeat_meter::observation::Standing;

use crate::seen::Outcome;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Nanoseconds since 1970, UTC.
    Moment,
    /// Whole numbers of 64 bits with a sign.
    Long,
    /// Whole numbers of 32 bits with a sign.
    Short,
    /// Text.
    Text,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) form: Form,
    /// Whether a row may have no value.
    pub(super) optional: bool,
}

const fn column(name: &'static str, form: Form) -> Column {
    Column { name, form, optional: false }
}

const fn optional(name: &'static str, form: Form) -> Column {
    Column { name, form, optional: true }
}

/// How many columns there are.
pub(super) const COUNT: usize = 16;

/// The columns, in their order.
pub(super) const COLUMNS: [Column; COUNT] = [
    column("time", Form::Moment),
    column("monotonic", Form::Long),
    column("port", Form::Text),
    column("queue", Form::Short),
    column("outcome", Form::Text),
    optional("flow", Form::Text),
    optional("flow_number", Form::Short),
    optional("sequence", Form::Long),
    optional("sent", Form::Long),
    optional("due", Form::Long),
    optional("delay", Form::Long),
    column("size", Form::Short),
    optional("payload", Form::Short),
    optional("packet_size", Form::Short),
    optional("fragments", Form::Short),
    optional("note", Form::Text),
];

/// The columns as a schema of Parquet.
pub(super) fn schema() -> Result<Type, ParquetError> {
    let column = |column: &Column| {
        let (physical, logical) = match column.form {
            Form::Moment => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
            Form::Long => (Physical::INT64, None),
            Form::Short => (Physical::INT32, None),
            Form::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let built = Type::primitive_type_builder(column.name, physical);
        built.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("packets").with_fields(fields).build()
}

/// The outcomes by their place here, as the column `outcome` names them.
const OUTCOMES: [(&str, Outcome); 14] = [
    ("new", Outcome::Received(Standing::New)),
    ("reordered", Outcome::Received(Standing::Reordered)),
    ("beyond-window", Outcome::Received(Standing::BeyondWindow)),
    ("duplicate", Outcome::Received(Standing::Duplicate)),
    ("doubtful", Outcome::Received(Standing::Doubtful)),
    ("without-probe", Outcome::Received(Standing::WithoutProbe)),
    ("unknown-flow", Outcome::Received(Standing::UnknownFlow)),
    ("stale", Outcome::Received(Standing::Stale)),
    ("fragment", Outcome::Received(Standing::Fragment)),
    ("malformed", Outcome::Received(Standing::Malformed)),
    ("foreign", Outcome::Received(Standing::Foreign)),
    ("sent", Outcome::Sent),
    ("failed", Outcome::Failed),
    ("expired", Outcome::Expired),
];

/// The names of all outcomes, by [`outcome_number`].
pub(super) fn outcome_names() -> impl Iterator<Item = &'static str> {
    OUTCOMES.iter().map(|(name, _)| *name)
}

/// The place of an outcome among all.
#[inline]
pub(super) fn outcome_number(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Received(standing) => standing as u8,
        Outcome::Sent => Standing::ALL.len() as u8,
        Outcome::Failed => Standing::ALL.len() as u8 + 1,
        Outcome::Expired => Standing::ALL.len() as u8 + 2,
    }
}

/// The outcome of this name.
pub(super) fn outcome_named(name: &[u8]) -> Option<Outcome> {
    OUTCOMES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, outcome)| *outcome)
}

/// What the column `note` says, by [`note_number`].
pub(super) const NOTES: [&str; 3] = ["untimed", "last", "untimed last"];

/// The place of a note among [`NOTES`]; `None` where there is nothing to note.
#[inline]
pub(super) fn note_number(timed: bool, last: bool) -> Option<u8> {
    match (timed, last) {
        (true, false) => None,
        (false, false) => Some(0),
        (true, true) => Some(1),
        (false, true) => Some(2),
    }
}

/// Whether a frame was timed, and whether it was the last of its flow, as the column `note` says.
pub(super) fn noted(note: &[u8]) -> (bool, bool) {
    let has = |word: &str| note.split(|byte| *byte == b' ').any(|found| found == word.as_bytes());
    (!has("untimed"), has("last"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_notes_are_read_back_by_their_names() {
        let standings = Standing::ALL.into_iter().map(Outcome::Received);
        let all: Vec<Outcome> =
            standings.chain([Outcome::Sent, Outcome::Failed, Outcome::Expired]).collect();
        assert_eq!(all.len(), OUTCOMES.len());
        for outcome in all {
            let name = outcome_names().nth(outcome_number(outcome).into()).unwrap();
            assert_eq!(outcome_named(name.as_bytes()), Some(outcome));
        }
        assert_eq!(outcome_named(b"News"), None);
        for timed in [true, false] {
            for last in [true, false] {
                let note = note_number(timed, last).map_or("", |number| NOTES[usize::from(number)]);
                assert_eq!(noted(note.as_bytes()), (timed, last));
            }
        }
    }
}
