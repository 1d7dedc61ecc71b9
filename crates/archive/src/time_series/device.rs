//! Devices: 16 bytes that name what a record came from. They mean whatever who made the archive means by them.
//!
//! As text: what is UTF-8 without control characters, without blanks at either end and padded with zero bytes is
//! written as it is; anything else as `0x` and 32 hexadecimal digits. The bytes come back from both.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};
use wirebeat_units::{Fault, fault, into_fault};

/// What a record came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device(pub [u8; Device::LEN]);

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.fault())]
pub enum BadDevice {
    /// Longer than names are.
    Long(String),
    /// A name of more than 16 bytes that cannot be written as it is.
    NotPlain(String),
    /// Zero bytes end a name, so they cannot be in it.
    Zero(String),
}

impl BadDevice {
    /// What is wrong, and what would help.
    pub fn fault(&self) -> Fault {
        match self {
            BadDevice::Long(it) => {
                fault!(
                    "'{it}…' is longer than the {} bytes of a device's name", Device::NAME_MAX;
                    "shorten it"
                )
            }
            BadDevice::NotPlain(it) => {
                fault!(
                    "'{it}' is longer than 16 bytes, and such names are UTF-8 without control \
                     characters, and without blanks at either end";
                    "write it so, or give 16 bytes as 0x and 32 digits"
                )
            }
            BadDevice::Zero(it) => {
                fault!("'{it}' has a zero byte"; "give its bytes as 0x and 32 digits")
            }
        }
    }
}

into_fault!(BadDevice);

impl Device {
    /// Bytes that it takes.
    pub const LEN: usize = 16;
    /// Bytes of the longest name.
    pub const NAME_MAX: usize = 1_024;
    /// What devices begin with whose names are longer than 16 bytes: no name of UTF-8 has it.
    const LONG: u8 = 0xff;

    /// The device of a name that is longer than 16 bytes: the same in every archive.
    ///
    /// # Errors
    /// Where it is longer than names are, or cannot be written as it is.
    pub fn named(name: &str) -> Result<Device, BadDevice> {
        let start = || name.chars().take(60).flat_map(char::escape_debug).collect();
        if name.len() > Device::NAME_MAX {
            return Err(BadDevice::Long(start()));
        }
        if name.contains(char::is_control) || name.trim() != name {
            return Err(BadDevice::NotPlain(start()));
        }
        let hash: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let mut bytes = [Device::LONG; Device::LEN];
        bytes[1..].copy_from_slice(&hash[..Device::LEN - 1]);
        Ok(Device(bytes))
    }

    /// Whether it may have a name of more than 16 bytes, which is in the archive's dictionary then.
    #[inline]
    pub fn has_long_name(self) -> bool {
        self.0[0] == Device::LONG
    }

    /// Its name, where it is one that can be written as it is.
    fn name(&self) -> Option<&str> {
        let len = self.0.iter().rposition(|&byte| byte != 0)? + 1;
        let name = std::str::from_utf8(self.0.get(..len)?).ok()?;
        let plain = !name.contains(char::is_control) && name.trim() == name;
        // would be read as digits, were it longer
        (plain && !name.starts_with("0x")).then_some(name)
    }

    /// Reads text, as bytes: a name, or `0x` and 32 digits. Of a name of more than 16 bytes it is [`Device::named`].
    ///
    /// # Errors
    /// Where it does not fit.
    #[inline]
    pub fn from_text(text: &[u8]) -> Result<Device, BadDevice> {
        let mut bytes = [0; Device::LEN];
        match bytes.get_mut(..text.len()) {
            Some(start) if !text.contains(&0) => {
                start.copy_from_slice(text);
                Ok(Device(bytes))
            }
            Some(_) => Err(BadDevice::Zero(String::from_utf8_lossy(text).into_owned())),
            None => Device::from_digits(text),
        }
    }

    #[cold]
    fn from_digits(text: &[u8]) -> Result<Device, BadDevice> {
        let digits = std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix("0x"));
        let digits = digits.filter(|digits| {
            digits.len() == 2 * Device::LEN && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        let number = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok());
        if let Some(number) = number {
            return Ok(Device(number.to_be_bytes()));
        }
        let shown = || String::from_utf8_lossy(text).chars().take(60).collect();
        Device::named(std::str::from_utf8(text).map_err(|_| BadDevice::NotPlain(shown()))?)
    }
}

impl FromStr for Device {
    type Err = BadDevice;

    fn from_str(text: &str) -> Result<Device, BadDevice> {
        Device::from_text(text.as_bytes())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("0x{:032x}", u128::from_be_bytes(self.0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_digits() {
        let device = |text: &str| text.parse::<Device>().unwrap();
        assert_eq!(device("BK.SAO").0, *b"BK.SAO\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(device("BK.SAO").to_string(), "BK.SAO");
        assert_eq!(device("sixteen-bytes-ok").to_string(), "sixteen-bytes-ok");
        assert_eq!(device("").to_string(), "0x00000000000000000000000000000000");
        assert_eq!(device("0x000000000000000000000000000000ff").0[15], 255);
        assert_eq!(device(" a").to_string(), "0x20610000000000000000000000000000");
        assert!(device("0xab").to_string().starts_with("0x30786162"));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for text in ["seventeen-bytes-\n", "a name of seventeen ", "a\0b"] {
            let message = text.parse::<Device>().unwrap_err().to_string();
            assert!(message.contains("0x and 32 digits"), "{message}");
        }
        let message = "x".repeat(1_025).parse::<Device>().unwrap_err().to_string();
        assert!(message.contains("1024 bytes of a device's name"), "{message}");
    }

    /// UUIDs and topics of MQTT did not fit.
    #[test]
    fn long_names_are_devices_that_are_the_same_everywhere() {
        let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let device: Device = uuid.parse().unwrap();
        // printf %s 6ba7b810-9dad-11d1-80b4-00c04fd430c8 | sha256sum
        let hash: [u8; 32] = Sha256::digest(uuid).into();
        assert_eq!((device.0[0], &device.0[1..]), (0xff, &hash[..15]));
        assert!(device.has_long_name() && !Device(*b"sixteen-bytes-ok").has_long_name());
        assert_eq!(device.to_string().parse(), Ok(device));
        assert!("x".repeat(1_024).parse::<Device>().is_ok());
    }

    proptest! {
        #[test]
        fn every_device_comes_back_from_its_text(bytes: [u8; 16]) {
            let device = Device(bytes);
            prop_assert_eq!(device.to_string().parse(), Ok(device));
        }

        #[test]
        fn every_name_comes_back(name in "[a-zäö€ .:_-]{0,16}") {
            if let Ok(device) = name.parse::<Device>() {
                prop_assert_eq!(device.to_string().parse(), Ok(device));
            }
        }
    }
}
