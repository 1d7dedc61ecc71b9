//! Counters of a namespace's network stack, as `/proc/net/snmp` and `snmp6` have them.

/// A counter of `/proc/net/snmp`, which has two lines for a protocol: one of titles and one of values.
pub(crate) fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let of = |line| str::strip_prefix(line, protocol)?.strip_prefix(": ");
    let mut lines = text.lines().filter_map(of);
    let (titles, values) = (lines.next()?, lines.next()?);
    let at = titles.split(' ').position(|title| title == name)?;
    values.split(' ').nth(at)?.parse().ok()
}

/// A counter of `/proc/net/snmp6`, which has a line for each.
pub(crate) fn counter6(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.trim_start_matches([' ', '\t']).parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_protocol_and_name() {
        let text = "Ip: Forwarding InHdrErrors\nIp: 1 4\n\
                    Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 161 1192 9 1355 7\n\
                    UdpLite: InDatagrams RcvbufErrors\nUdpLite: 0 5\n";
        assert_eq!(counter(text, "Udp", "RcvbufErrors"), Some(7));
        assert_eq!(counter(text, "Ip", "InHdrErrors"), Some(4));
        assert_eq!(counter("Udp: InDatagrams\nUdp: 1\n", "Udp", "RcvbufErrors"), None);
        assert_eq!(counter("Udp: InDatagrams\n", "Udp", "InDatagrams"), None);
        let text = "Udp6InErrors                    \t4\nUdp6RcvbufErrors                \t3\n";
        assert_eq!(counter6(text, "Udp6RcvbufErrors"), Some(3));
        assert_eq!(counter6(text, "Udp6In"), None);
    }
}
