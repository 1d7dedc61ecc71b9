//! crude's text log, as `crude` prints it and `crude -d` decodes it:
//! `ID=7 SEQ=0 SRC=192.0.2.1:3000 DST=192.0.2.2:10001 Tx=1.000002 Rx=1.000345 SIZE=64`.
//!
//! Times are seconds since the UNIX epoch. An IPv6 address stands there as it is, without brackets.

use std::fmt;

use super::{Malformed, Received, SECOND_NS, digits, endpoint, seconds, value};

/// A received packet as a line of crude's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrudeLine(pub Received);

impl CrudeLine {
    /// Reads a line. The time to live is not in it.
    ///
    /// # Errors
    /// When a field is missing or cannot be read.
    pub fn parse(text: &str) -> Result<CrudeLine, Malformed> {
        let malformed = |field| Malformed { log: "crude", field };
        let get = |key| value(text, key).ok_or(malformed(key));
        let number = |key| digits(get(key)?).ok_or(malformed(key));
        let address = |key| endpoint(get(key)?, ':').ok_or(malformed(key));
        let time = |key| seconds(get(key)?).ok_or(malformed(key));
        let narrow = |key| u32::try_from(number(key)?).map_err(|_| malformed(key));
        let sent_ns = time("Tx=")?;
        Ok(CrudeLine(Received {
            arrived_ns: time("Rx=")?,
            sent_ns: (sent_ns != 0).then_some(sent_ns),
            flow: narrow("ID=")?,
            sequence: number("SEQ=")?,
            source: address("SRC=")?,
            destination: address("DST=")?,
            size: narrow("SIZE=")?,
            ttl: None,
        }))
    }
}

impl fmt::Display for CrudeLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Received { flow, sequence, source, destination, size, .. } = self.0;
        write!(f, "ID={flow} SEQ={sequence} SRC={}:{} ", source.ip(), source.port())?;
        write!(f, "DST={}:{} ", destination.ip(), destination.port())?;
        let time = |ns: u64| (ns / SECOND_NS, ns % SECOND_NS / 1000);
        let (tx, rx) = (time(self.0.sent_ns.unwrap_or(0)), time(self.0.arrived_ns));
        write!(f, "Tx={}.{:06} Rx={}.{:06} SIZE={size}", tx.0, tx.1, rx.0, rx.1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::any_received;
    use super::*;

    const LINE: &str = "ID=7 SEQ=3 SRC=192.0.2.1:3000 DST=192.0.2.2:10001 \
        Tx=1795189310.500392 Rx=1795189310.500599 SIZE=64";

    fn received() -> Received {
        Received {
            arrived_ns: 1_795_189_310_500_599_000,
            sent_ns: Some(1_795_189_310_500_392_000),
            flow: 7,
            sequence: 3,
            source: ([192, 0, 2, 1], 3000).into(),
            destination: ([192, 0, 2, 2], 10001).into(),
            size: 64,
            ttl: None,
        }
    }

    #[test]
    fn a_line_is_written_and_read_as_crude_writes_it() {
        assert_eq!(CrudeLine(received()).to_string(), LINE);
        assert_eq!(CrudeLine::parse(LINE), Ok(CrudeLine(received())));
    }

    #[test]
    fn a_line_that_lacks_a_field_is_refused_with_its_name() {
        for key in ["ID=", "SEQ=", "SRC=", "DST=", "Tx=", "Rx=", "SIZE="] {
            let malformed = Malformed { log: "crude", field: key };
            assert_eq!(CrudeLine::parse(&LINE.replace(key, "X=")), Err(malformed.clone()));
            assert_eq!(CrudeLine::parse(&LINE.replace(key, &format!("{key}-"))), Err(malformed));
        }
        assert_eq!(
            CrudeLine::parse("").unwrap_err().to_string(),
            "this is not a line of crude: Tx= is missing or cannot be read; give the text log as crude \
             wrote it"
        );
    }

    proptest! {
        #[test]
        fn every_line_written_is_read_back(received in any_received()) {
            let expected = Received { ttl: None, ..received };
            prop_assert_eq!(CrudeLine::parse(&CrudeLine(received).to_string()), Ok(CrudeLine(expected)));
        }
        #[test]
        fn any_text_is_a_line_or_refused(text: String, at in 0..LINE.len()) {
            let _ = CrudeLine::parse(&text);
            let _ = CrudeLine::parse(&LINE.replace(&LINE[at..=at], &text));
        }
    }
}
