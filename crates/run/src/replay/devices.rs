//! The devices of a recording: which sub-flow the records of each belong to, and what they are counted by.
//!
//! What is counted by itself are the members of a flow (`wirebeat_traffic::program::Flow::members`): devices, numbered
//! as they come first, or sub-flows in the order of their numbers. There are so many as were allowed for beforehand;
//! what comes after them is counted together, as the flow's own.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};

use wirebeat_archive::select::{DeviceFilter as Chosen, Pattern};
use wirebeat_archive::time_series::{Device, Names};
use wirebeat_report::model::MemberKind;
use wirebeat_traffic::scenario::Replay;
use wirebeat_traffic::scenario::replay::{FlowOf, Statistics};
use wirebeat_units::{Fault, fault};

use super::Recording;
use crate::regular;

/// The longest table of devices, in bytes.
const TABLE_MAX: u64 = 256 << 20;

/// The devices of a recording.
pub(super) struct Devices {
    sub_flows: SubFlows,
    members: Members,
    /// Names that are longer than 16 bytes.
    names: Names,
    /// The tags of members, and that of what is none.
    tags: Range<u32>,
    other: u16,
    /// How many sub-flows differ.
    different: Option<u64>,
}

/// A member of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// What it is called.
    pub(crate) name: String,
    /// The number of its sub-flow, where there are any.
    pub(crate) sub_flow: Option<u32>,
}

/// Which sub-flow and which member the records of a device are of; members are numbered from 0.
#[derive(Clone, Copy)]
struct Place {
    sub_flow: u32,
    member: u32,
}

/// The sub-flow of each device.
enum SubFlows {
    /// There is but one.
    One,
    /// In the order in which devices come.
    InOrder(HashMap<Device, u32>),
    /// One of so many.
    Hash(u32),
    /// As a file says.
    Table(Table),
}

/// What a file says of devices.
struct Table {
    of: HashMap<Device, Place>,
    /// The numbers of sub-flows in it, which are those of members in this order.
    numbers: Vec<u32>,
}

/// What is counted by itself.
enum Members {
    /// What has a sub-flow of its own, or nothing.
    SubFlows,
    /// Devices, which share sub-flows: those that there are tags for, and whether there are others.
    Devices { seen: HashMap<Device, Place>, others: bool },
}

impl Devices {
    /// As a recording says; the error names the file, and the line in it.
    pub(super) fn of(recording: &Recording) -> Result<Devices, Fault> {
        let replay = &recording.replay;
        let sub_flows = match (&replay.flow_of, &recording.table) {
            (None, _) => SubFlows::One,
            (Some(FlowOf::Device), _) => SubFlows::InOrder(HashMap::new()),
            (Some(FlowOf::Hash(count)), _) => SubFlows::Hash(count.get()),
            (Some(FlowOf::Table(name)), path) => {
                let path = path.clone().unwrap_or_else(|| PathBuf::from(name));
                SubFlows::Table(Table::read(&path)?)
            }
        };
        let members = match (kind(replay), &sub_flows) {
            (Some(MemberKind::Device), SubFlows::One | SubFlows::Hash(_) | SubFlows::Table(_)) => {
                Members::Devices { seen: HashMap::new(), others: false }
            }
            _ => Members::SubFlows,
        };
        let (tags, other) = (recording.members.clone(), recording.flow as u16);
        Ok(Devices {
            sub_flows,
            members,
            names: Names::default(),
            tags,
            other,
            different: recording.different,
        })
    }

    /// Takes names of devices that are longer than 16 bytes.
    pub(super) fn learn<'a>(&mut self, names: impl Iterator<Item = (Device, &'a str)>) {
        for (device, name) in names {
            // those that are too many are shown as digits
            let _ = self.names.insert(device, name);
        }
    }

    /// The number of the sub-flow of a device, and its tag; `None` when there is no sub-flow for it.
    #[inline]
    pub(super) fn place(&mut self, device: Device) -> Option<(u32, u16)> {
        let Place { sub_flow, member } = match &mut self.members {
            Members::SubFlows => self.sub_flows.place(device)?,
            Members::Devices { seen, others } => match seen.get(&device) {
                Some(place) => *place,
                None => {
                    let sub_flow = self.sub_flows.place(device)?.sub_flow;
                    let place = Place { sub_flow, member: seen.len() as u32 };
                    // memory does not grow with what is in an archive
                    if seen.len() < self.tags.len() {
                        seen.insert(device, place);
                    } else {
                        *others = true;
                    }
                    place
                }
            },
        };
        // all tags have 16 bits
        let tag = self.tags.start.saturating_add(member);
        Some((sub_flow, if tag < self.tags.end { tag as u16 } else { self.other }))
    }

    /// The members so far, as many as there are tags, and in the order of these.
    pub(super) fn members(&self) -> Vec<Member> {
        let device = |device: &Device, sub_flow| {
            let long = self.names.get(*device).map(str::to_owned);
            Member { name: long.unwrap_or_else(|| device.to_string()), sub_flow }
        };
        let of_sub_flow = |number: u32| Member { name: number.to_string(), sub_flow: Some(number) };
        let mut numbered: Vec<(u32, Member)> = match (&self.members, &self.sub_flows) {
            (Members::Devices { seen, .. }, sub_flows) => {
                let shown = |place: &Place| sub_flows.are_many().then_some(place.sub_flow);
                let all = seen.iter();
                all.map(|(of, place)| (place.member, device(of, shown(place)))).collect()
            }
            (Members::SubFlows, SubFlows::InOrder(seen)) => {
                seen.iter().map(|(of, number)| (*number, device(of, Some(*number)))).collect()
            }
            (Members::SubFlows, SubFlows::Hash(count)) => {
                let most = (*count).min(self.tags.len() as u32);
                (0..most).map(|number| (number, of_sub_flow(number))).collect()
            }
            (Members::SubFlows, SubFlows::Table(table)) => {
                (0..).zip(table.numbers.iter().map(|number| of_sub_flow(*number))).collect()
            }
            (Members::SubFlows, SubFlows::One) => Vec::new(),
        };
        numbered.sort_unstable_by_key(|(number, _)| *number);
        numbered.truncate(self.tags.len());
        numbered.into_iter().map(|(_, member)| member).collect()
    }

    /// That some sub-flows share what they were to be told apart by, which was not known beforehand.
    pub(super) fn note_shared(&self) -> Option<String> {
        let SubFlows::InOrder(seen) = &self.sub_flows else { return None };
        let (all, different) = (seen.len() as u64, self.different?);
        (all > different).then(|| shared(all, different))
    }

    /// What a reader of the numbers should know.
    pub(super) fn note(&self) -> Option<String> {
        let some = self.tags.len();
        let (what, others) = match (&self.members, &self.sub_flows) {
            (Members::Devices { others, .. }, _) => ("devices", *others),
            (Members::SubFlows, SubFlows::InOrder(seen)) => ("devices", seen.len() > some),
            (Members::SubFlows, SubFlows::Hash(count)) => ("sub-flows", *count as usize > some),
            (Members::SubFlows, SubFlows::Table(table)) => {
                ("sub-flows", table.numbers.len() > some)
            }
            (Members::SubFlows, SubFlows::One) => return None,
        };
        // without tags nothing was to be counted by itself
        if !others || some == 0 {
            return None;
        }
        let mend = match some as u32 {
            Replay::MEMBERS_MAX => "",
            _ => {
                "; with an index ('wirebeat archive index') it is known beforehand how many there are"
            }
        };
        Some(format!(
            "{some} {what} are counted each by itself, and those that came after them together, in their flow alone{mend}"
        ))
    }
}

impl SubFlows {
    /// The sub-flow of a device, and the member if sub-flows are these; `None` when there is none for it.
    #[inline]
    fn place(&mut self, device: Device) -> Option<Place> {
        let same = |number| Place { sub_flow: number, member: number };
        match self {
            // nothing is counted by itself here: then there are no tags for it
            SubFlows::One => Some(Place { sub_flow: 0, member: u32::MAX }),
            SubFlows::Hash(count) => Some(same(hash(device) % *count)),
            SubFlows::InOrder(seen) => {
                let next = seen.len() as u32;
                Some(same(*seen.entry(device).or_insert(next)))
            }
            SubFlows::Table(table) => table.of.get(&device).copied(),
        }
    }

    fn are_many(&self) -> bool {
        !matches!(self, SubFlows::One)
    }
}

/// FNV-1a of 32 bits: the same on every machine.
fn hash(device: Device) -> u32 {
    device
        .0
        .iter()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

impl Table {
    /// A device, a comma and a number in each line; `#` begins a comment.
    fn read(path: &Path) -> Result<Table, Fault> {
        let at = |line: usize| format!("{}:{line}", path.display());
        let told = |why: &dyn Display| format!("the table '{}': {why}", path.display());
        let file = regular::open(path).map_err(|error| told(&error))?;
        let file =
            file.ok_or_else(|| told(&fault!("it is not a regular file"; "write it to one first")))?;
        let mut of = HashMap::new();
        for (text, line) in BufReader::new(file.take(TABLE_MAX)).lines().zip(1..) {
            let text = text.map_err(|error| format!("{}: {error}", at(line)))?;
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let parts = text.rsplit_once(',');
            let (device, number) = parts.ok_or_else(|| {
                format!("{}: a line has a device, a comma and the number of its sub-flow", at(line))
            })?;
            let device: Device =
                device.trim().parse().map_err(|why| format!("{}: {why}", at(line)))?;
            let number = number.trim();
            let sub_flow = number
                .parse()
                .map_err(|_| format!("{}: '{number}' is not a number of a sub-flow", at(line)))?;
            if of.insert(device, Place { sub_flow, member: 0 }).is_some() {
                return Err(fault!("{}: {device} is there twice", at(line)));
            }
        }
        let numbers: BTreeSet<u32> = of.values().map(|place: &Place| place.sub_flow).collect();
        let numbers = Vec::from_iter(numbers);
        for place in of.values_mut() {
            place.member = numbers.partition_point(|number| *number < place.sub_flow) as u32;
        }
        Ok(Table { of, numbers })
    }
}

/// How many members a flow has that replays this, with what is known of the devices in its archives, by their names; or
/// why its table or its devices cannot be read.
pub(crate) fn members(
    replay: &Replay,
    table: Option<&Path>,
    known: &HashMap<&str, Option<HashSet<Device>>>,
) -> Result<u32, Fault> {
    let all = match (kind(replay), &replay.flow_of) {
        (None, _) => return Ok(0),
        (Some(MemberKind::SubFlow), Some(FlowOf::Hash(count))) => Some(count.get() as usize),
        (Some(MemberKind::SubFlow), Some(FlowOf::Table(name))) => {
            Some(Table::read(table.unwrap_or(Path::new(name)))?.numbers.len())
        }
        _ => devices(replay, known)?,
    };
    let all = all.map_or(Replay::MEMBERS_UNKNOWN, |all| u32::try_from(all).unwrap_or(u32::MAX));
    Ok(all.min(Replay::MEMBERS_MAX))
}

/// The numbers of the sub-flows of a replay.
#[derive(Debug)]
pub(crate) enum Numbered {
    /// From 0, so many.
    First(u64),
    These(Vec<u32>),
}

impl Numbered {
    /// How many there are, and how many of them differ where numbers begin again after `period`.
    pub(crate) fn different(&self, period: u64) -> (u64, u64) {
        match self {
            Numbered::First(all) => (*all, period.min(*all)),
            Numbered::These(numbers) => {
                let rests = numbers.iter().map(|number| u64::from(*number) % period.max(1));
                (numbers.len() as u64, rests.collect::<HashSet<_>>().len() as u64)
            }
        }
    }
}

/// The sub-flows that the records of a replay belong to, where they are known.
pub(crate) fn sub_flows(
    replay: &Replay,
    table: Option<&Path>,
    known: &HashMap<&str, Option<HashSet<Device>>>,
) -> Result<Option<Numbered>, Fault> {
    let sent = replay.sub_flows.map_or(u32::MAX, NonZeroU32::get);
    let first = |all: u64| Numbered::First(all.min(sent.into()));
    Ok(match &replay.flow_of {
        None => None,
        Some(FlowOf::Hash(count)) => Some(first(count.get().into())),
        Some(FlowOf::Table(name)) => {
            let mut numbers = Table::read(table.unwrap_or(Path::new(name)))?.numbers;
            numbers.retain(|number| *number < sent);
            Some(Numbered::These(numbers))
        }
        Some(FlowOf::Device) => devices(replay, known)?.map(|count| first(count as u64)),
    })
}

/// That there are more sub-flows than differ from each other.
pub(crate) fn shared(all: u64, different: u64) -> String {
    format!(
        "there are {all} sub-flows ('flow-of'), and {different} of them differ: the others share their packets' fields \
         with these, such as the source port; begin at a lower --source-port, give patterns 'per: sub-flow' more values, \
         or share on purpose with --flow-of hash:{different}"
    )
}

/// How many devices there are of which records are sent, where that is known.
fn devices(
    replay: &Replay,
    known: &HashMap<&str, Option<HashSet<Device>>>,
) -> Result<Option<usize>, Fault> {
    let chosen = chosen(replay)?;
    let mut all = HashSet::new();
    for name in replay.names() {
        let Some(Some(devices)) = known.get(name.as_str()) else { return Ok(None) };
        // which names of more than 16 bytes begin so is not known here: that there are more does no harm
        let may = |device: &Device| {
            chosen.has(*device) || (device.has_long_name() && chosen.has_beginnings())
        };
        all.extend(devices.iter().copied().filter(may));
    }
    Ok(Some(all.len()))
}

/// The devices of which records are sent.
pub(super) fn chosen(replay: &Replay) -> Result<Chosen, Fault> {
    let pattern = |name: &String| name.parse::<Pattern>().map_err(|why| why.fault());
    replay.devices.iter().map(pattern).collect()
}

/// What the members of a flow are that replays this; `None` where it has none.
pub(crate) fn kind(replay: &Replay) -> Option<MemberKind> {
    match (replay.statistics, &replay.flow_of) {
        (Statistics::Flow, _) => None,
        (Statistics::Device, _) | (Statistics::SubFlow, Some(FlowOf::Device)) => {
            Some(MemberKind::Device)
        }
        (Statistics::SubFlow, _) => Some(MemberKind::SubFlow),
    }
}
