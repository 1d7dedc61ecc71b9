//! Whether each engine can be used, found by using it: programs are loaded, sockets opened, on loopback
//! or on nothing. That an interface's driver goes along is known only once the interface is.

use serde::{Serialize, Serializer};
use wirebeat_traffic::engines::Engine;
use wirebeat_units::Fault;

use crate::engines::{Missing, driver};

/// Whether an engine can be used here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineCheck {
    /// Its name.
    pub engine: &'static str,
    /// What it needs of the machine and of this process.
    pub needs: &'static str,
    /// Whether it can be used.
    pub usability: Usability,
}

/// Whether something can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Usability {
    /// It works.
    Usable {
        /// How, or on what.
        how: String,
    },
    /// It does not.
    Unusable {
        /// What is missing, and what would mend it.
        #[serde(serialize_with = "sentence")]
        why: Fault,
        /// All that the kernel's verifier said, where it refused a program.
        #[serde(skip_serializing_if = "Option::is_none")]
        verifier_log: Option<String>,
    },
}

impl EngineCheck {
    /// Whether it can be used.
    pub fn is_usable(&self) -> bool {
        matches!(self.usability, Usability::Usable { .. })
    }

    /// Why it cannot be used, if so.
    pub fn obstacle(&self) -> Option<&Fault> {
        match &self.usability {
            Usability::Usable { .. } => None,
            Usability::Unusable { why, .. } => Some(why),
        }
    }
}

pub(super) fn sentence<S: Serializer>(fault: &Fault, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(fault)
}

/// Tries an engine, without touching an interface that carries traffic.
pub fn probe(engine: Engine) -> EngineCheck {
    EngineCheck {
        engine: engine.name(),
        needs: engine.row().needs,
        usability: match driver(engine).probe() {
            Ok(how) => Usability::Usable { how },
            Err(Missing { why, verifier_log }) => Usability::Unusable { why, verifier_log },
        },
    }
}

/// Tries every engine, in the order of the table.
pub(super) fn check() -> Vec<EngineCheck> {
    Engine::ALL.iter().copied().map(probe).collect()
}
