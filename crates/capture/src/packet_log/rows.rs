//! Rows in memory, column by column: those of one row group, which is bounded.

use bytes::Bytes;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::SchemaDescriptor;

use super::columns::{COLUMNS, NOTES, note_number, outcome_names, outcome_number};
use super::texts::{self, Places};
use crate::seen::Seen;

/// Stands in [`Texts::places`] for a flow without a name: there is one number more than there are names.
const NAMELESS: u16 = u16::MAX;

/// The values of a column without those that are none, and which are none.
#[derive(Debug, Default)]
struct Optional<T> {
    values: Vec<T>,
    /// 1 for a value, 0 for none.
    levels: Vec<i16>,
}

impl<T> Optional<T> {
    #[inline]
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// The values that rows refer to by their places, as Parquet has them in a dictionary.
#[derive(Debug)]
pub(super) struct Texts {
    ports: Vec<Bytes>,
    outcomes: Vec<Bytes>,
    flows: Vec<Bytes>,
    notes: Vec<Bytes>,
    /// Where in `flows` the name of each flow number is.
    places: Box<[u16]>,
}

impl Texts {
    /// With the names of ports by their places, and those of flows by their numbers.
    pub(super) fn new(ports: &[String], flows: &[(u16, String)]) -> Texts {
        let mut places = vec![NAMELESS; 1 << 16].into_boxed_slice();
        for (place, (number, _)) in (0..NAMELESS).zip(flows) {
            places[usize::from(*number)] = place;
        }
        Texts {
            ports: ports.iter().map(|name| plain(name)).collect(),
            outcomes: outcome_names().map(plain).collect(),
            flows: flows.iter().map(|(_, name)| plain(name)).collect(),
            notes: NOTES.into_iter().map(plain).collect(),
            places,
        }
    }
}

/// A text in the plain encoding: its length, and its bytes.
fn plain(text: &str) -> Bytes {
    let len = u32::try_from(text.len()).unwrap_or(0).to_le_bytes();
    [&len[..], &text.as_bytes()[..u32::from_le_bytes(len) as usize]].concat().into()
}

/// What rows have of a frame that needs its bytes or its meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measures {
    pub(super) payload: Option<i32>,
    pub(super) packet_size: Option<i32>,
    pub(super) fragments: Option<i32>,
    pub(super) note: Option<u8>,
}

impl Measures {
    #[inline]
    pub(super) fn of(seen: &Seen<'_>) -> Measures {
        let Some(sampled) = seen.sampled else {
            let counts = seen.is_measured() || !seen.outcome.is_received();
            let payload = counts.then(|| super::payload::len(seen.bytes)).flatten();
            return Measures { payload: payload.map(short), ..Measures::default() };
        };
        let several = sampled.fragments > 0;
        Measures {
            payload: Some(short(sampled.payload_len)),
            packet_size: several.then(|| short(sampled.packet_len)),
            fragments: several.then(|| short(sampled.fragments)),
            note: note_number(sampled.timed, sampled.last),
        }
    }
}

/// A length as a signed number: none comes near 2^31 bytes.
#[inline]
pub(super) fn short(len: u32) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

/// The rows of a row group.
#[derive(Debug, Default)]
pub(super) struct Rows {
    times: Vec<i64>,
    at: Vec<i64>,
    ports: Vec<u16>,
    queues: Vec<i32>,
    outcomes: Vec<u16>,
    flows: Optional<u16>,
    flow_numbers: Optional<i32>,
    sequences: Optional<i64>,
    sent: Optional<i64>,
    due: Optional<i64>,
    delays: Optional<i64>,
    sizes: Vec<i32>,
    payloads: Optional<i32>,
    packet_sizes: Optional<i32>,
    fragments: Optional<i32>,
    notes: Optional<u16>,
}

impl Rows {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Adds the row of a frame.
    #[inline]
    pub(super) fn push(&mut self, seen: &Seen<'_>, texts: &Texts) {
        self.times.push(seen.unix_ns.cast_signed());
        self.at.push(seen.at.get().cast_signed());
        self.ports.push(seen.interface);
        self.queues.push(seen.queue.into());
        self.outcomes.push(outcome_number(seen.outcome).into());
        let place = seen.flow.map(|number| texts.places[usize::from(number)]);
        self.flows.push(place.filter(|place| *place != NAMELESS));
        self.flow_numbers.push(seen.flow.map(i32::from));
        self.sequences.push(seen.sequence.map(i64::from));
        self.sent.push(seen.sent.map(|sent| sent.get().cast_signed()));
        self.due.push(seen.due.map(|due| due.get().cast_signed()));
        self.delays.push(seen.delay_ns());
        self.sizes.push(short(seen.frame_len));
        let measures = Measures::of(seen);
        self.payloads.push(measures.payload);
        self.packet_sizes.push(measures.packet_size);
        self.fragments.push(measures.fragments);
        self.notes.push(measures.note.map(u16::from));
    }

    /// Writes them as a row group, and forgets them.
    pub(super) fn write(
        &mut self,
        group: SerializedRowGroupWriter<'_, Vec<u8>>,
        schema: &SchemaDescriptor,
        texts: &Texts,
    ) -> Result<(), ParquetError> {
        let mut to = GroupWriter { group, schema, column: 0 };
        to.required::<Int64Type>(&self.times)?;
        to.required::<Int64Type>(&self.at)?;
        to.texts(&texts.ports, &self.ports, None)?;
        to.required::<Int32Type>(&self.queues)?;
        to.texts(&texts.outcomes, &self.outcomes, None)?;
        to.texts(&texts.flows, &self.flows.values, Some(&self.flows.levels))?;
        to.optional::<Int32Type>(&self.flow_numbers)?;
        to.optional::<Int64Type>(&self.sequences)?;
        to.optional::<Int64Type>(&self.sent)?;
        to.optional::<Int64Type>(&self.due)?;
        to.optional::<Int64Type>(&self.delays)?;
        to.required::<Int32Type>(&self.sizes)?;
        to.optional::<Int32Type>(&self.payloads)?;
        to.optional::<Int32Type>(&self.packet_sizes)?;
        to.optional::<Int32Type>(&self.fragments)?;
        to.texts(&texts.notes, &self.notes.values, Some(&self.notes.levels))?;
        to.group.close()?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        self.times.clear();
        self.at.clear();
        self.ports.clear();
        self.queues.clear();
        self.outcomes.clear();
        self.flows.clear();
        self.flow_numbers.clear();
        self.sequences.clear();
        self.sent.clear();
        self.due.clear();
        self.delays.clear();
        self.sizes.clear();
        self.payloads.clear();
        self.packet_sizes.clear();
        self.fragments.clear();
        self.notes.clear();
    }
}

/// A row group that is written, column by column.
struct GroupWriter<'a, 'w> {
    group: SerializedRowGroupWriter<'w, Vec<u8>>,
    schema: &'a SchemaDescriptor,
    /// The next column.
    column: usize,
}

impl GroupWriter<'_, '_> {
    fn required<T: DataType>(&mut self, values: &[T::T]) -> Result<(), ParquetError> {
        self.numbers::<T>(values, None)
    }

    fn optional<T: DataType>(&mut self, values: &Optional<T::T>) -> Result<(), ParquetError> {
        self.numbers::<T>(&values.values, Some(&values.levels))
    }

    fn numbers<T: DataType>(
        &mut self,
        values: &[T::T],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        self.column += 1;
        let missing = || ParquetError::General("the schema has too few columns".to_owned());
        let mut column = self.group.next_column()?.ok_or_else(missing)?;
        column.typed::<T>().write_batch(values, levels, None)?;
        column.close()
    }

    fn texts(
        &mut self,
        dictionary: &[Bytes],
        values: &[u16],
        levels: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let descr = self.schema.column(self.column.min(COLUMNS.len() - 1));
        self.column += 1;
        texts::write(&mut self.group, descr, dictionary, Places { values, levels })
    }
}
