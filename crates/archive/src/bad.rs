//! What is wrong with a file and where, and why its reading ended: the same for archives and captures, which say
//! themselves what a place and a defect are.

use std::fmt::{Debug, Display};
use std::io;

use wirebeat_units::Fault;

/// Something that is wrong, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad<Place, Defect> {
    /// Where.
    pub place: Place,
    /// What.
    pub defect: Defect,
}

/// Why the reading of a file ended.
#[derive(Debug, thiserror::Error)]
pub enum ReadError<Place: Debug + Display, Defect: Debug + Display> {
    /// Something is wrong in it.
    #[error("{name}: {}: {}", .bad.place, .bad.defect)]
    Bad {
        /// The file.
        name: String,
        /// What, and where.
        bad: Bad<Place, Defect>,
    },
    /// The system refused to read.
    #[error("{name}: reading at byte {offset}: {source}")]
    System {
        /// The file.
        name: String,
        /// Where.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
}

impl<Place: Debug + Display, Defect: Debug + Display> ReadError<Place, Defect>
where
    for<'a> Fault: From<&'a Defect>,
{
    /// What is wrong and where, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            ReadError::Bad { name, bad } => Fault::from(&bad.defect).at(&bad.place).at(name),
            ReadError::System { .. } => self.to_string().into(),
        }
    }
}
