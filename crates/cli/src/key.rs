//! The key that a sender and a receiver on another host share: from a flag, a file or the environment.

use std::path::PathBuf;

use clap::Args;
use wirebeat_run::KeySource;
use wirebeat_traffic::scenario::PortSpec;

use crate::failure::Failure;

/// The environment variable that holds the key where no flag does. Other users of the machine do not
/// see it, as they see a command line.
pub const VARIABLE: &str = "WIREBEAT_KEY";

/// The TCP port of the control connection where none is written.
pub const CONTROL_PORT: u16 = PortSpec::CONTROL_PORT;

/// Where the key comes from.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyArgs {
    /// The key that both hosts share; or set WIREBEAT_KEY, which other users cannot see
    #[arg(long, value_name = "KEY", conflicts_with = "key_file")]
    pub key: Option<String>,
    /// A file that holds the key
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

impl KeyArgs {
    /// The key, if there is one.
    pub fn source(&self) -> Option<KeySource> {
        let from_environment = || std::env::var(VARIABLE).ok().filter(|key| !key.is_empty());
        match (&self.key_file, &self.key) {
            (Some(file), _) => Some(KeySource::File(file.clone())),
            (None, Some(key)) => Some(KeySource::Text(key.clone())),
            (None, None) => from_environment().map(KeySource::Text),
        }
    }

    /// Whether a flag gives a key.
    pub fn given(&self) -> bool {
        self.key.is_some() || self.key_file.is_some()
    }
}

/// A new key that nobody can guess.
pub fn generate() -> Result<String, Failure> {
    wirebeat_run::remote::generate_key().map_err(|error| Failure::machine(error.fault()))
}
