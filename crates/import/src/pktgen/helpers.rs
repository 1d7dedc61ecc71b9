//! What helpers of the kernel's samples print (`functions.sh`), and `seq` and `echo`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What a command prints; `None`: that depends on the machine.
pub(super) fn printed(words: &[&str]) -> Option<String> {
    match words {
        ["parse_addr", address] => range4(address).map(|(min, max)| format!("{min} {max}")),
        ["parse_addr6", address] => range6(address).map(|(min, max)| format!("{min} {max}")),
        ["parse_ports", ports] => {
            let (min, max) = ports.split_once('-').unwrap_or((ports, ports));
            Some(format!("{min} {max}"))
        }
        ["seq", last] => sequence("1", last),
        ["seq", first, last] => sequence(first, last),
        ["echo", words @ ..] if !words.iter().any(|word| word.starts_with('-')) => {
            Some(words.join(" "))
        }
        _ => None,
    }
}

/// The whole numbers from `first` to `last`.
fn sequence(first: &str, last: &str) -> Option<String> {
    let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
    let count = last.checked_sub(first)?;
    // More threads or devices than this no machine has.
    (count <= 65_536)
        .then(|| (first..=last).map(|number| number.to_string()).collect::<Vec<_>>().join(" "))
}

/// The first and the last address of `10.0.0.0/8`, or the address twice.
fn range4(text: &str) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let (address, len) = text.split_once('/').unwrap_or((text, "32"));
    let (address, len) = (address.parse::<Ipv4Addr>().ok()?.to_bits(), len.parse::<u32>().ok()?);
    let hosts = u32::MAX.checked_shr(len).unwrap_or(0);
    (len <= 32).then(|| ((address & !hosts).into(), (address | hosts).into()))
}

fn range6(text: &str) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let (address, len) = text.split_once('/').unwrap_or((text, "128"));
    let (address, len) = (address.parse::<Ipv6Addr>().ok()?.to_bits(), len.parse::<u32>().ok()?);
    let hosts = u128::MAX.checked_shr(len).unwrap_or(0);
    (len <= 128).then(|| ((address & !hosts).into(), (address | hosts).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_print_what_those_of_the_samples_do() {
        for (words, expected) in [
            (&["parse_addr", "198.18.0.0/15"][..], Some("198.18.0.0 198.19.255.255")),
            (&["parse_addr", "10.1.2.3/0"], Some("0.0.0.0 255.255.255.255")),
            (&["parse_addr", "10.1.2.3"], Some("10.1.2.3 10.1.2.3")),
            (&["parse_addr", "10.1.2.3/33"], None),
            (&["parse_addr6", "fd00::1/112"], Some("fd00:: fd00::ffff")),
            (&["parse_ports", "433-444"], Some("433 444")),
            (&["seq", "0", "3"], Some("0 1 2 3")),
            (&["seq", "4000000000"], None),
            (&["echo", "1", "2"], Some("1 2")),
            (&["echo", "-e", "1"], None),
            (&["nproc"], None),
        ] {
            assert_eq!(printed(words).as_deref(), expected, "{words:?}");
        }
    }
}
