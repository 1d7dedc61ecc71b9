//! What this kernel is, and how its older requests name an interface.

use std::ffi::c_char;
use std::io;

use rustix::system::uname;

/// Bytes of a name in `struct ifreq`, with the zero at its end (`IFNAMSIZ`).
pub const REQUEST_NAME: usize = 16;

/// The first two numbers of this kernel's release: 6 and 1 of "6.1.0-18-amd64".
pub fn kernel_version() -> Option<(u32, u32)> {
    version(uname().release().to_str().ok()?)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The name of an interface as a `struct ifreq` has it.
///
/// # Errors
/// It is too long for one.
pub fn request_name(name: &str) -> io::Result<[c_char; REQUEST_NAME]> {
    let mut padded = [0; REQUEST_NAME];
    let room = padded[..REQUEST_NAME - 1].get_mut(..name.len());
    let room = room.ok_or(io::ErrorKind::InvalidInput)?;
    room.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as c_char);
    Ok(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_begins_with_two_numbers() {
        for (release, numbers) in [
            ("6.1.0-18-amd64", Some((6, 1))),
            ("6.12.95+deb12-amd64", Some((6, 12))),
            ("5.18-rc1", Some((5, 18))),
            ("next", None),
        ] {
            assert_eq!(version(release), numbers);
        }
        assert!(kernel_version().is_some());
    }

    #[test]
    fn a_name_has_room_for_the_zero_at_its_end() {
        let name = request_name("wb0").unwrap();
        assert_eq!(name[..4], [b'w', b'b', b'0', 0].map(|byte| byte as c_char));
        assert!(request_name(&"x".repeat(15)).is_ok() && request_name(&"x".repeat(16)).is_err());
    }
}
