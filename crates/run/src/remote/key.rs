//! The key that both ends of a control connection know.
//!
//! A key is text that a person can copy; 32 bytes are derived from it for the handshake. Whoever records
//! a handshake can try guesses against it for as long as they like, so a key has to be long, and
//! [`generate`] makes one that is. On a loopback address a fixed key stands in for none: it keeps the
//! protocol the same and authenticates nobody.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wirebeat_units::{Fault, fault, into_fault};

use crate::options::KeySource;
use crate::regular;

/// The shortest key that is taken, in characters: 80 bits if they are drawn from 32.
pub const SHORTEST: usize = 16;
/// The longest key file that is read, in bytes.
const LONGEST: u64 = 4096;
/// Characters of a generated key: 5 bits each, 130 bits together.
const GENERATED: usize = 26;
/// Digits and letters without i, l, o and u, which are easily taken for others.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Sets these hashes apart from those that anything else makes of the same text.
const CONTEXT: &[u8] = b"wirebeat control connection, key 1\0";

/// A key, as the handshake takes it.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.fault())]
pub enum KeyError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Others can read the file, or write it.
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// What has the name is something else than a file.
    NotAFile {
        /// Its name.
        path: PathBuf,
    },
    /// The file is not a key.
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// It can be guessed.
    Short {
        /// Its length.
        length: usize,
        /// A key that will do.
        example: String,
    },
    /// The system has no random numbers.
    Random(getrandom::Error),
}

impl KeyError {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            KeyError::Unreadable { path, source } => {
                fault!(
                    "cannot read the key file {}: {source}", path.display();
                    "it has to hold the key that both ends share"
                )
            }
            KeyError::Exposed { path, mode } => {
                fault!(
                    "every user of this machine can read or change the key file {} (mode \
                     {mode:04o})",
                    path.display();
                    "take that away with `chmod o= {}`", path.display()
                )
            }
            KeyError::NotAFile { path } => {
                fault!(
                    "the key file {} is not a regular file", path.display();
                    "put the key into one, or into the environment variable WIREBEAT_KEY"
                )
            }
            KeyError::NotText { path } => fault!(
                "the key file {} holds no key: it has to be one line of text",
                path.display()
            ),
            KeyError::Short { length, example } => {
                fault!(
                    "a key of {length} characters can be guessed";
                    "use at least {SHORTEST}, for example {example}, which was made just now"
                )
            }
            KeyError::Random(it) => {
                fault!("cannot make a key: the system gives no random numbers: {it}")
            }
        }
    }
}

into_fault!(KeyError);

/// A new key of 130 bits, as text.
pub fn generate() -> Result<String, KeyError> {
    let mut random = [0; GENERATED];
    getrandom::fill(&mut random).map_err(KeyError::Random)?;
    Ok(random.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect())
}

impl Key {
    /// The key that `text` stands for; space around it does not count.
    pub fn from_text(text: &str) -> Result<Key, KeyError> {
        let text = text.trim();
        let length = text.chars().count();
        if length < SHORTEST {
            return Err(KeyError::Short { length, example: generate()? });
        }
        Ok(Key::derive(text.as_bytes()))
    }

    /// The key that a file or a text holds.
    pub fn from_source(source: &KeySource) -> Result<Key, KeyError> {
        match source {
            KeySource::Text(text) => Key::from_text(text),
            KeySource::File(path) => Key::from_text(&read(path)?),
        }
    }

    /// Whether it is made of this text. Takes as long wherever they differ: what is compared are hashes, all of them.
    pub fn is_made_of(&self, text: &str) -> bool {
        let other = Key::derive(text.trim().as_bytes());
        let differ =
            self.0.iter().zip(other.0).fold(0, |differ, (one, other)| differ | (one ^ other));
        std::hint::black_box(differ) == 0
    }

    /// What stands in for a key on a loopback address. Everybody knows it.
    pub(crate) fn public() -> Key {
        Key::derive(b"")
    }

    fn derive(text: &[u8]) -> Key {
        Key(Sha256::new().chain_update(CONTEXT).chain_update(text).finalize().into())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Never shows the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

fn read(path: &Path) -> Result<String, KeyError> {
    let unreadable = |source| KeyError::Unreadable { path: path.to_owned(), source };
    let not_a_file = || KeyError::NotAFile { path: path.to_owned() };
    let file = regular::open(path).map_err(unreadable)?.ok_or_else(not_a_file)?;
    // Of the open file, so that nobody can exchange it in between.
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if mode & 0o007 != 0 {
        return Err(KeyError::Exposed { path: path.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let text = String::from_utf8(bytes).ok().filter(|text| {
        text.len() as u64 <= LONGEST && !text.trim().is_empty() && !text.trim().contains('\n')
    });
    text.ok_or_else(|| KeyError::NotText { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A file that is gone when this goes out of scope.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, content: &[u8], mode: u32) -> Scratch {
            let path =
                std::env::temp_dir().join(format!("wirebeat-key-{name}-{}", std::process::id()));
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Scratch(path)
        }

        fn key(&self) -> Result<Key, KeyError> {
            Key::from_source(&KeySource::File(self.0.clone()))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn generated_keys_are_taken_and_differ() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_eq!(one.len(), GENERATED);
        assert_ne!(one, other);
        assert_ne!(Key::from_text(&one).unwrap(), Key::from_text(&other).unwrap());
        let key = Key::from_text(&one).unwrap();
        assert!(key.is_made_of(&one) && !key.is_made_of(&other) && !key.is_made_of(""));
        assert_ne!(Key::from_text(&one).unwrap(), Key::public());
    }

    #[test]
    fn text_and_file_give_the_same_key() {
        let file = Scratch::new("same", b" correct horse battery\n", 0o640);
        assert_eq!(file.key().unwrap(), Key::from_text("correct horse battery").unwrap());
    }

    #[test]
    fn a_file_that_everybody_can_read_is_refused() {
        let file = Scratch::new("exposed", b"correct horse battery", 0o644);
        let message = file.key().unwrap_err().to_string();
        assert!(message.contains("mode 0644") && message.contains("chmod o= /"), "{message}");
    }

    #[test]
    fn a_file_that_is_no_key_is_refused() {
        for (name, content) in [
            ("empty", &b"\n"[..]),
            ("binary", b"\xff\xfe"),
            ("long", &[b'a'; 5000]),
            ("lines", b"a\nb"),
        ] {
            let error = Scratch::new(name, content, 0o600).key().unwrap_err();
            assert!(matches!(error, KeyError::NotText { .. }), "{name}: {error}");
        }
        let missing = KeySource::File("/nonexistent/key".into());
        assert!(matches!(Key::from_source(&missing), Err(KeyError::Unreadable { .. })));
    }

    /// A pipe that nobody writes to held the program up for ever, and no signal ended it.
    #[test]
    fn a_pipe_or_a_device_is_no_key_file_and_is_not_waited_for() {
        let pipe = std::env::temp_dir().join(format!("wirebeat-key-pipe-{}", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600))
            .unwrap();
        for path in [pipe.clone(), "/dev/zero".into(), std::env::temp_dir()] {
            let error = Key::from_source(&KeySource::File(path)).unwrap_err();
            assert!(matches!(error, KeyError::NotAFile { .. }), "{error}");
        }
        fs::remove_file(pipe).unwrap();
    }

    #[test]
    fn a_short_key_is_refused_with_one_that_will_do() {
        let error = Key::from_text("  secret ").unwrap_err();
        let KeyError::Short { length, example } = &error else { panic!("{error}") };
        assert_eq!(*length, 6);
        assert!(Key::from_text(example).is_ok());
    }

    #[test]
    fn a_key_is_never_shown() {
        assert_eq!(format!("{:?}", Key::public()), "Key(…)");
    }
}
