//! Settings of the machine that a study changes, and what puts them back however the study ends.
//!
//! A shell waits for the end of its standard input, which is a pipe from this process: when the handle is dropped, or the process
//! is gone, it runs the commands that restore.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::lab::Failure;

/// Puts things back when it is dropped, or when this process ends.
#[derive(Debug)]
pub struct Restorer(Child);

impl Restorer {
    /// Runs these commands of a shell at the end.
    pub fn new(commands: &str) -> Result<Restorer, Failure> {
        let script = format!("trap '' INT TERM HUP; read -r _; {commands}");
        let child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Restorer(child))
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // there is nobody left to tell of a failure
        let _ = self.0.wait();
    }
}

/// A setting below `/proc/sys` that has another value until this is dropped.
#[derive(Debug)]
pub struct Setting {
    _restorer: Restorer,
}

impl Setting {
    /// Sets the first of the values that the kernel takes; which one it was.
    pub fn set(
        path: &str,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<(Setting, u64), Failure> {
        let old = fs::read_to_string(path)?;
        let restorer = Restorer::new(&format!("echo {} > {path}", old.trim()))?;
        let taken = values.into_iter().find(|value| fs::write(path, value.to_string()).is_ok());
        let taken = taken.ok_or_else(|| format!("{path} takes no such value"))?;
        Ok((Setting { _restorer: restorer }, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_put_back() {
        let path = std::env::temp_dir().join(format!("wb-restorer-{}", std::process::id()));
        fs::write(&path, "old\n").unwrap();
        let name = path.display().to_string();
        let (setting, taken) = Setting::set(&name, [7]).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), taken), ("7", 7));
        drop(setting);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old\n");
        fs::remove_file(path).unwrap();
        assert!(Setting::set("/proc/sys/no/such/thing", [1]).is_err());
    }
}
