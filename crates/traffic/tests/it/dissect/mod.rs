//! Every header, pattern and probe, as tshark dissects it: the fields that were asked for, right checksums and
//! no complaint, or exactly the deliberate one.

mod fragments;
mod headers;
mod varying;

use crate::observer::{Dissected, dissect};
use crate::world::{frames, program};

/// A flow and what is to be seen of it.
struct Case {
    /// Its keys.
    keys: String,
    /// How many frames of it are looked at.
    count: u64,
    /// A field, and what it holds in each frame, from the outside in.
    fields: Vec<(&'static str, Vec<Vec<String>>)>,
    /// How its complaints of each frame begin.
    complaints: Vec<&'static str>,
}

/// Frames of a packet with these headers.
fn packet(headers: &str) -> Case {
    flow(&format!("packet: [ {headers} ]"))
}

/// Frames of a flow with these keys.
fn flow(keys: &str) -> Case {
    Case { keys: keys.to_owned(), count: 2, fields: Vec::new(), complaints: Vec::new() }
}

impl Case {
    /// The field has this value in each frame; words are from the outside in.
    fn sees(mut self, field: &'static str, values: &str) -> Case {
        let values: Vec<String> = values.split(' ').map(str::to_owned).collect();
        self.fields.push((field, vec![values; self.count as usize]));
        self
    }

    /// The field has one of these values after the other.
    fn sees_in_turn(mut self, field: &'static str, values: &[&str]) -> Case {
        assert!(self.fields.is_empty() || self.count == values.len() as u64);
        self.count = values.len() as u64;
        let values = values.iter().map(|value| vec![(*value).to_owned()]).collect();
        self.fields.push((field, values));
        self
    }

    /// As many frames are looked at.
    fn frames(self, count: u64) -> Case {
        Case { count, ..self }
    }

    /// Without probe.
    fn plain(mut self) -> Case {
        self.keys.push_str("\n    probe: off");
        self
    }

    fn size(mut self, size: &str) -> Case {
        self.keys.push_str(&format!("\n    size: {size}"));
        self
    }

    fn complains(mut self, complaint: &'static str) -> Case {
        self.complaints.push(complaint);
        self
    }

    fn look(&self, seen: &[Dissected]) {
        for (number, frame) in seen.iter().enumerate() {
            for (field, values) in &self.fields {
                let found = frame.values(field);
                assert_eq!(
                    found, values[number],
                    "{field} of frame {number} of {}\n{frame:?}",
                    self.keys
                );
            }
            let complaints = frame.complaints();
            let deliberate = complaints.len() == self.complaints.len()
                && complaints
                    .iter()
                    .zip(&self.complaints)
                    .all(|(all, begin)| all.starts_with(begin));
            assert!(deliberate, "frame {number} of {}: {complaints:?}\n{frame:?}", self.keys);
        }
    }
}

/// Has tshark look at all cases at once.
fn look(cases: &[Case]) {
    let mut all = Vec::new();
    for case in cases {
        all.extend(frames(&program(&case.keys), case.count));
    }
    let seen = dissect(&all);
    let mut rest = &seen[..];
    for case in cases {
        let (of_case, others) = rest.split_at(case.count as usize);
        case.look(of_case);
        rest = others;
    }
}
