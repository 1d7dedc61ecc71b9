//! Control data of recvmsg(2) and sendmsg(2): messages one after the other (cmsg(3)), and times in them. Pure.

use std::mem::{align_of, size_of};

/// Bytes of a message's header.
pub(crate) const HEADER: usize = size_of::<libc::cmsghdr>();
pub(crate) const ALIGN: usize = align_of::<libc::cmsghdr>();

/// Level, kind and data of each message; ends at what makes no sense.
pub(crate) fn iter(mut bytes: &[u8]) -> impl Iterator<Item = (libc::c_int, libc::c_int, &[u8])> {
    std::iter::from_fn(move || {
        let (len, level, kind) = header(bytes)?;
        let data = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
        Some((level, kind, data))
    })
}

/// Length with the header, level and kind.
fn header(bytes: &[u8]) -> Option<(usize, libc::c_int, libc::c_int)> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (level, rest) = rest.split_first_chunk()?;
    let (kind, _) = rest.split_first_chunk()?;
    let len = usize::from_ne_bytes(*len);
    let level = libc::c_int::from_ne_bytes(*level);
    (len >= HEADER).then(|| (len, level, libc::c_int::from_ne_bytes(*kind)))
}

/// The nanoseconds of a `timespec`; `None` where it is not one of after 1970.
pub(crate) fn timespec(data: &[u8]) -> Option<u64> {
    let (seconds, rest) = data.split_first_chunk()?;
    let nanoseconds = rest.first_chunk()?;
    let seconds = u64::try_from(i64::from_ne_bytes(*seconds)).ok()?;
    let nanoseconds = u64::try_from(i64::from_ne_bytes(*nanoseconds)).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// The card's stamp in the data of `SCM_TIMESTAMPING` (`struct scm_timestamping`): the third of three times, zero where
/// there is none.
pub(crate) fn card_stamp(data: &[u8]) -> Option<u64> {
    timespec(data.get(2 * size_of::<libc::timespec>()..)?).filter(|stamp| *stamp > 0)
}

/// A message as it is written, for tests.
#[cfg(test)]
pub(crate) fn message(level: libc::c_int, kind: libc::c_int, data: &[u8]) -> Vec<u8> {
    let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_card_s_stamp_is_the_third_time() {
        let times = |all: [i64; 6]| all.map(i64::to_ne_bytes).concat();
        assert_eq!(card_stamp(&times([5, 6, 0, 0, 7, 8])), Some(7_000_000_008));
        assert_eq!(card_stamp(&times([5, 6, 0, 0, 0, 0])), None, "the system's alone");
        assert_eq!(card_stamp(&times([5, 6, 0, 0, -1, 0])), None);
        assert_eq!(card_stamp(&[0; 40]), None);
    }

    #[test]
    fn any_bytes_end_somewhere() {
        let mut state = 1_u64;
        for _ in 0..2_000 {
            let mut bytes = [message(1, 2, &[3; 9]), message(4, 5, &[6; 20])].concat();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % bytes.len();
            bytes[at] = (state >> 20) as u8;
            assert!(iter(&bytes).count() <= 2);
        }
        let both: Vec<_> = [message(1, 2, &[3; 9]), message(4, 5, &[])].concat();
        let read: Vec<_> =
            iter(&both).map(|(level, kind, data)| (level, kind, data.len())).collect();
        assert_eq!(read, [(1, 2, 9), (4, 5, 0)]);
    }
}
