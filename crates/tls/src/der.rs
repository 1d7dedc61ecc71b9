//! The few values of DER (ITU-T X.690) that a certificate is made of.

/// SEQUENCE.
pub const SEQUENCE: u8 = 0x30;
/// SET.
pub const SET: u8 = 0x31;
/// INTEGER.
pub const INTEGER: u8 = 0x02;
/// BIT STRING.
pub const BIT_STRING: u8 = 0x03;
/// OCTET STRING.
pub const OCTET_STRING: u8 = 0x04;
/// OBJECT IDENTIFIER.
pub const OBJECT: u8 = 0x06;
/// UTF8String.
pub const UTF8: u8 = 0x0c;
/// UTCTime.
pub const UTC_TIME: u8 = 0x17;

/// A value with its tag and its length (§8.1).
pub fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(short @ ..0x80) => out.push(short),
        _ => {
            let length = content.len().to_be_bytes();
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            let digits = length.get(zeros..).unwrap_or_default();
            out.push(0x80 | digits.len() as u8);
            out.extend_from_slice(digits);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Values one behind the other, in a value of their own.
pub fn all(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(tag, &parts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_as_many_bytes_as_they_need() {
        assert_eq!(value(SEQUENCE, &[7; 3]), [0x30, 3, 7, 7, 7]);
        assert_eq!(value(OCTET_STRING, &[0; 0x80])[..3], [4, 0x81, 0x80]);
        assert_eq!(value(OCTET_STRING, &[0; 0x123])[..4], [4, 0x82, 1, 0x23]);
    }
}
