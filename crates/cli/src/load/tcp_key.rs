//! `--tcp KEY=VALUE`: keys of `tcp` of a scenario that have no flag of their own. The language reads them, so that a key which it gets
//! needs no flag.

use std::fmt::Write;
use std::str::FromStr;

use wirebeat_traffic::scenario::session::TcpSpec;
use wirebeat_traffic::scenario::yaml;
use wirebeat_units::{Fault, fault};

/// A key with its value, each as it was written: `rto.min` and `1s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpKey {
    key: String,
    value: String,
}

impl FromStr for TcpKey {
    type Err = Fault;

    fn from_str(text: &str) -> Result<TcpKey, Fault> {
        let example = "write for example syn-retries=2 or keep-alive.idle=10s";
        let Some((key, value)) = text.split_once('=') else {
            return Err(fault!("no value follows the key"; "{example}"));
        };
        let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
        let is_key = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        if !key.split('.').all(is_key) || key.split('.').count() > 2 {
            return Err(fault!("'{key}' is not a key of 'tcp'"; "{example}"));
        }
        if value.is_empty() {
            return Err(fault!("no value follows '{key}='"; "{example}"));
        }
        let one = TcpKey { key, value };
        read(std::slice::from_ref(&one))?;
        Ok(one)
    }
}

/// What keys say together.
///
/// # Errors
/// A key that is not there, or was written twice; a value that it cannot have. Named by its key.
pub fn read(keys: &[TcpKey]) -> Result<TcpSpec, Fault> {
    let mut text = String::from("{");
    for (at, TcpKey { key, value }) in keys.iter().enumerate() {
        let before = keys.get(..at).unwrap_or_default();
        let holds = |other: &TcpKey| {
            let within = |one: &str, other: &str| {
                one.strip_prefix(other).is_some_and(|rest| rest.starts_with('.'))
            };
            other.key == *key || within(key, &other.key) || within(&other.key, key)
        };
        if before.iter().any(holds) {
            return Err(fault!("{key} is written twice"; "leave one of them out"));
        }
        let _ = match key.split_once('.') {
            None => write!(text, " {key}: {value},"),
            Some((first, _)) => {
                let of = |one: &&TcpKey| one.key.split('.').next() == Some(first);
                if before.iter().any(|one| of(&one)) {
                    continue;
                }
                let all = keys.iter().filter(of).filter_map(|one| {
                    Some(format!("{}: {}", one.key.split_once('.')?.1, one.value))
                });
                write!(text, " {first}: {{ {} }},", all.collect::<Vec<_>>().join(", "))
            }
        };
    }
    text.push_str(" }");
    // which of several keys it is, each has said of itself
    let named = |fault: Fault| match keys {
        [one] => Fault { what: format!("{}: {}", one.key, fault.what), ..fault },
        _ => fault,
    };
    yaml::value(&text).map_err(named)
}

#[cfg(test)]
mod tests {
    use wirebeat_units::Nanos;

    use super::*;

    fn keys(words: &str) -> Result<TcpSpec, String> {
        let keys: Result<Vec<TcpKey>, Fault> = words.split_whitespace().map(str::parse).collect();
        keys.and_then(|keys| read(&keys)).map_err(|fault| fault.to_string())
    }

    #[test]
    fn the_language_reads_keys_and_values() {
        let spec = keys(
            "initial-window=2 rto.min=500ms keep-alive.idle=9s rto.max=7s sack=false delayed-ack=0s receive-buffer=1MiB",
        );
        let spec = spec.unwrap();
        assert_eq!(spec.initial_window.map(u8::from), Some(2));
        assert_eq!(spec.rto.min, Some(Nanos::from_millis(500)));
        assert_eq!(spec.rto.max, Some(Nanos::from_secs(7)));
        assert_eq!(spec.keep_alive.map(|of| of.idle), Some(Nanos::from_secs(9)));
        assert_eq!((spec.sack, spec.delayed_ack), (Some(false), Some(Nanos::ZERO)));
        assert_eq!(keys("").unwrap(), TcpSpec::default());
    }

    #[test]
    fn mistakes_name_the_key() {
        for (words, says) in [
            ("rto", "no value follows the key"),
            ("rto.min=", "no value follows 'rto.min='"),
            ("=3", "'' is not a key of 'tcp'"),
            ("a.b.c=3", "'a.b.c' is not a key of 'tcp'"),
            ("windows=3", "windows"),
            ("rto.least=3s", "rto.least: "),
            ("initial-window=0", "initial-window: "),
            ("initial-window=many", "initial-window: "),
            ("sack=}", "sack: "),
            ("rto.min=1s rto.min=2s", "rto.min is written twice"),
            ("rto={} rto.min=2s", "rto.min is written twice"),
        ] {
            let said = keys(words).map(|spec| format!("{spec:?}")).unwrap_err();
            assert!(said.contains(says), "{words}: {said}");
        }
    }
}
