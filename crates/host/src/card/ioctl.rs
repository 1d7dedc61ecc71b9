//! What only the older interface of ethtool tells: the driver's own counters, its name, and the table of RSS before
//! Linux 6.2. Needs no privilege.
//!
//! The kernel writes as many counters as the driver has when it is asked, whatever room there is
//! (`ethtool_get_stats` of `net/ethtool/ioctl.c`). So it writes to memory that ends with a page which nobody may write to:
//! a driver that has more of them than a moment before gets an error. What it wrote is copied out and read by pure
//! functions. Numbers and names come from a driver: both are bounded, and names made harmless.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::param::page_size;
use wirebeat_netlink::request_name;

use super::Rss;

/// `linux/sockios.h`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// `linux/ethtool.h`.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GRSSH: u32 = 0x46;
const ETH_SS_STATS: u32 = 1;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// The size of `struct ethtool_drvinfo`.
const DRVINFO: usize = 196;
/// The size of `struct ethtool_rxfh` without what follows.
const RXFH: usize = 24;
/// More counters than any driver has: an mlx5 with 64 queues has some 5,000.
const COUNTERS_MAX: u32 = 1 << 16;
/// More entries than any table has: ice has 2,048.
const TABLE_MAX: u32 = 1 << 16;
/// More bytes than any key of a hash has: 52 are the usual.
const KEY_MAX: u32 = 1 << 10;

/// An interface of the calling thread's namespace, by its name.
pub(super) struct Driver {
    socket: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Driver {
    pub(super) fn open(interface: &str) -> io::Result<Driver> {
        let name = request_name(interface)?;
        let socket =
            socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        Ok(Driver { socket, name })
    }

    /// The driver's name.
    pub(super) fn name(&self) -> Option<String> {
        let reply = self.ask(&[ETHTOOL_GDRVINFO], DRVINFO).ok()?;
        text(reply.get(4..4 + NAME)?)
    }

    /// Its counters with their names; none where it has none, or more than can be believed.
    pub(super) fn counters(&self) -> Vec<(String, u64)> {
        let read = || {
            let count = self.counter_count()?;
            let room = |each: usize| 16 + count as usize * each;
            let names = self.ask(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, count], room(NAME)).ok()?;
            let values = self.ask(&[ETHTOOL_GSTATS, count], room(8)).ok()?;
            Some(counters(&names, &values))
        };
        read().unwrap_or_default()
    }

    fn counter_count(&self) -> Option<u32> {
        // the mask of sets has 64 bits, and the kernel leaves only those that the driver has
        let reply = self.ask(&[ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0], 24).ok()?;
        let mask = number(&reply, 8)?;
        let count = number(&reply, 16).filter(|_| mask != 0)?;
        (1..=COUNTERS_MAX).contains(&count).then_some(count)
    }

    /// How it spreads what it receives; `None` where it does not.
    pub(super) fn rss(&self) -> Option<Rss> {
        let sizes = self.ask(&[ETHTOOL_GRSSH], RXFH).ok()?;
        let (entries, key) = (number(&sizes, 8)?, number(&sizes, 12)?);
        if !(1..=TABLE_MAX).contains(&entries) || key > KEY_MAX {
            return None;
        }
        let room = RXFH + 4 * entries as usize + key as usize;
        // without room for the key the kernel does not tell the table either
        rss(&self.ask(&[ETHTOOL_GRSSH, 0, entries, key], room).ok()?)
    }

    /// Has the kernel answer the command that begins with `words`, in `room` bytes.
    #[allow(unsafe_code)]
    fn ask(&self, words: &[u32], room: usize) -> io::Result<Vec<u8>> {
        let memory = Guarded::new(room.max(words.len() * 4))?;
        let begin: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: `memory` has room for `begin`, and nobody else knows of it.
        unsafe { ptr::copy_nonoverlapping(begin.as_ptr(), memory.at.as_ptr(), begin.len()) };
        // SAFETY: `ifreq` is integers, arrays of them and a pointer, for which zeros are a value.
        let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
        request.ifr_name = self.name;
        request.ifr_ifru.ifru_data = memory.at.as_ptr().cast();
        // SAFETY: the kernel reads `request` and writes from `ifru_data` on; that mapping is ours, and the page behind
        // it cannot be written to, so that it writes to nothing else.
        let result = unsafe {
            libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, ptr::from_mut(&mut request))
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping has so many bytes, all of them zero or written by the kernel, which has returned.
        Ok(unsafe { std::slice::from_raw_parts(memory.at.as_ptr(), room) }.to_vec())
    }
}

/// Zeroed memory that ends with a page which nobody may write to.
struct Guarded {
    at: NonNull<u8>,
    whole: usize,
}

impl Guarded {
    /// Room for `len` bytes at least.
    #[allow(unsafe_code)]
    fn new(len: usize) -> io::Result<Guarded> {
        let page = page_size();
        let whole = len.next_multiple_of(page) + page;
        // SAFETY: a new mapping, where the kernel likes.
        let at = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let at = NonNull::new(at.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = Guarded { at, whole };
        // SAFETY: the last page of that mapping, to which nothing refers.
        unsafe {
            let last = memory.at.as_ptr().add(whole - page);
            mprotect(last.cast(), page, MprotectFlags::empty())
        }?;
        Ok(memory)
    }
}

impl Drop for Guarded {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping that was made, to which nothing refers any more.
        let _ = unsafe { munmap(self.at.as_ptr().cast(), self.whole) };
    }
}

/// The number at a place, in the host's order.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A driver's text up to its zero, without what acts on a terminal; `None` where nothing is left.
fn text(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.iter().copied().take_while(|&byte| byte != 0);
    let harmless = |byte: u8| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '?',
    };
    let text: String = bytes.map(harmless).collect();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Counters from `struct ethtool_gstrings` and `struct ethtool_stats`.
fn counters(names: &[u8], values: &[u8]) -> Vec<(String, u64)> {
    let count = |reply: &[u8], at| number(reply, at).unwrap_or(0) as usize;
    let (named, counted) = (count(names, 8), count(values, 4));
    let names = names.get(12..).unwrap_or_default().chunks_exact(NAME).take(named);
    let values = values.get(8..).unwrap_or_default().as_chunks::<8>().0.iter().take(counted);
    let both = names.zip(values);
    both.filter_map(|(name, value)| Some((text(name)?, u64::from_ne_bytes(*value)))).collect()
}

/// A table from `struct ethtool_rxfh`.
fn rss(reply: &[u8]) -> Option<Rss> {
    let (entries, key_bytes) = (number(reply, 8)?, number(reply, 12)?);
    // ETH_RSS_HASH_*_BIT of include/linux/ethtool.h
    let hash = match reply.get(16)? {
        1 => Some("toeplitz"),
        2 => Some("xor"),
        4 => Some("crc32"),
        _ => None,
    };
    let table =
        reply.get(RXFH..)?.as_chunks::<4>().0.iter().map(|entry| u32::from_ne_bytes(*entry));
    let table: Vec<u32> = table.take(entries as usize).collect();
    (!table.is_empty()).then_some(Rss { hash, key_bytes, table })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn names(names: &[&[u8]]) -> Vec<u8> {
        let mut reply = words(&[ETHTOOL_GSTRINGS, ETH_SS_STATS, names.len() as u32]);
        for name in names {
            let mut padded = [0; NAME];
            padded[..name.len()].copy_from_slice(name);
            reply.extend(padded);
        }
        reply
    }

    fn values(values: &[u64]) -> Vec<u8> {
        let mut reply = words(&[ETHTOOL_GSTATS, values.len() as u32]);
        reply.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        reply
    }

    #[test]
    fn counters_are_read_with_names_that_harm_nobody() {
        let names =
            names(&[b"rx_packets", b"  pkts rx OOB", b"", b"\x1b[31mred", &[b'x'; 32], b"late"]);
        let read = counters(&names, &values(&[7, u64::MAX, 3, 4, 5]));
        let long = "x".repeat(32);
        let expected =
            [("rx_packets", 7), ("pkts rx OOB", u64::MAX), ("?[31mred", 4), (long.as_str(), 5)];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    /// What igb (82576, 4 queues, Linux 6.12) answers to ETHTOOL_GRSSH, shortened to 8 entries.
    #[test]
    fn the_table_of_a_card_is_read() {
        let mut reply = words(&[ETHTOOL_GRSSH, 0, 8, 0]);
        reply.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        reply.extend(words(&[0, 0, 1, 1, 2, 2, 3, 3]));
        let expected =
            Rss { hash: Some("toeplitz"), key_bytes: 0, table: vec![0, 0, 1, 1, 2, 2, 3, 3] };
        assert_eq!(rss(&reply), Some(expected));
        assert_eq!(rss(&reply[..RXFH]), None);
    }

    #[test]
    fn memory_for_the_kernel_has_the_room_that_was_asked_for() {
        for len in [1, page_size(), page_size() + 1] {
            let memory = Guarded::new(len).unwrap();
            assert_eq!(memory.whole, len.next_multiple_of(page_size()) + page_size());
        }
    }

    #[test]
    fn loopback_has_a_driver_without_a_name_and_long_names_are_refused() {
        assert!(Driver::open("a-name-of-16-byte").is_err());
        let lo = Driver::open("lo").unwrap();
        assert_eq!((lo.counters(), lo.rss()), (Vec::new(), None));
        assert_eq!(Driver::open("wb-none").unwrap().name(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(
            a in proptest::collection::vec(any::<u8>(), 0..200),
            b in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = counters(&a, &b);
            let _ = rss(&a);
        }
    }
}
