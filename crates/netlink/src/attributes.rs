//! Netlink attributes, read leniently: what is not understood is left out, never an error.
//!
//! A new kernel adds attributes and lengthens old ones. Reading them one by one keeps a field that
//! nobody here asked for from spoiling a whole message.

use netlink_packet_core::{DefaultNla, Emitable, NLA_F_NESTED, NlaBuffer, NlasIterator};

/// The attributes in `bytes`, up to the first that is broken.
pub(crate) fn iter(bytes: &[u8]) -> impl Iterator<Item = NlaBuffer<&[u8]>> {
    NlasIterator::new(bytes).map_while(Result::ok)
}

/// The value of the first attribute of `kind`.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<Vec<u8>> {
    iter(bytes).find(|a| a.kind() == kind).map(|a| a.value().to_vec())
}

/// The first attribute of `kind` as a number of 4 bytes in host order.
pub(crate) fn find_u32(bytes: &[u8], kind: u16) -> Option<u32> {
    find(bytes, kind)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// A string up to its terminating zero; bytes that are not UTF-8 are replaced.
pub(crate) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&b| b == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// An attribute with these bytes.
pub(crate) fn bytes(kind: u16, value: &[u8]) -> DefaultNla {
    DefaultNla::new(kind, value.to_vec())
}

/// An attribute with a number of 4 bytes in host order.
pub(crate) fn number(kind: u16, value: u32) -> DefaultNla {
    bytes(kind, &value.to_ne_bytes())
}

/// An attribute with a string and its terminating zero.
pub(crate) fn string(kind: u16, value: &str) -> DefaultNla {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    DefaultNla::new(kind, bytes)
}

/// An attribute that holds attributes.
pub(crate) fn nest(kind: u16, inner: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | NLA_F_NESTED, emit(inner))
}

/// The bytes of attributes one after the other.
pub(crate) fn emit(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_found_again() {
        let bytes = emit(&[number(1, 7), nest(2, &[string(3, "wb0")])]);
        assert_eq!(find_u32(&bytes, 1), Some(7));
        let inner = find(&bytes, 2).unwrap();
        assert_eq!(text(&find(&inner, 3).unwrap()), "wb0");
        assert_eq!(find(&bytes, 9), None);
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = iter(&bytes).map(|a| text(a.value())).collect::<Vec<_>>();
            let _ = find_u32(&bytes, 1);
        }
    }
}
