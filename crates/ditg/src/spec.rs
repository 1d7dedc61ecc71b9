//! What flows a sender is to send: plain data, checked before anything is opened.

use wirebeat_units::{Fault, FrameRate, Nanos, fault};

use crate::control::{DATA_PORT, Meter, PayloadKind, Transport};
use crate::payload::{SIZE_MAX, header_len};

/// Flows at a time.
const FLOWS_MAX: u32 = 128;
/// The largest datagram that IPv4 and UDP carry is larger than the largest packet of D-ITG.
const SIZES: std::ops::RangeInclusive<usize> = 16..=SIZE_MAX;

/// When a flow has enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// After this time (`-t`).
    Time(Nanos),
    /// After so many packets (`-z`).
    Packets(u64),
}

/// What flows are to be. The default is D-ITG's: 10 seconds, one flow, UDP, 1000 packets of 512 bytes in a second, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// What carries them (`-T`).
    pub transport: Transport,
    /// What is measured (`-m`).
    pub meter: Meter,
    /// How many there are, numbered from 1.
    pub flows: u32,
    /// Bytes of the payload of each packet, its header among them (`-c`).
    pub size: usize,
    /// Packets in a second of each (`-C`). Without: as fast as it goes.
    pub rate: Option<FrameRate>,
    /// When each has enough.
    pub amount: Amount,
    /// The byte of DSCP and ECN (`-b`).
    pub ds: u8,
    /// The receiver's port for them (`-rp`).
    pub data_port: u16,
    /// How often an interval is told; without: never.
    pub interval: Option<Nanos>,
}

impl FlowSpec {
    /// Bytes of a packet, unless others are asked for.
    pub const SIZE: usize = 512;

    /// Whether such flows can be sent.
    ///
    /// # Errors
    /// What is invalid.
    pub fn check(&self) -> Result<(), Fault> {
        let FlowSpec { transport, flows, size, rate, .. } = *self;
        if matches!(transport, Transport::Other(_)) {
            return Err(fault!("flows go over UDP or TCP"));
        }
        if !(1..=FLOWS_MAX).contains(&flows) {
            return Err(fault!("{flows} flows"; "ask for 1 to {FLOWS_MAX}"));
        }
        let least = header_len(transport, PayloadKind::Standard).max(*SIZES.start());
        if !(least..=*SIZES.end()).contains(&size) {
            return Err(fault!("packets of {size} B"; "ask for {least} B to {} B", SIZES.end()));
        }
        if rate.is_some_and(|rate| rate.frames == 0) {
            return Err(fault!("a rate of no packets"; "ask for some"));
        }
        Ok(())
    }
}

impl Default for FlowSpec {
    fn default() -> Self {
        FlowSpec {
            transport: Transport::Udp,
            meter: Meter::OneWay,
            flows: 1,
            size: FlowSpec::SIZE,
            rate: Some(FrameRate { frames: 1000, per: Nanos::from_secs(1) }),
            amount: Amount::Time(Nanos::from_secs(10)),
            ds: 0,
            data_port: DATA_PORT,
            interval: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_packet_can_be_is_refused() {
        let usual = FlowSpec::default();
        assert_eq!(usual.check(), Ok(()));
        for wrong in [
            FlowSpec { flows: 0, ..usual },
            FlowSpec { flows: 129, ..usual },
            FlowSpec { size: 15, ..usual },
            FlowSpec { size: 19, transport: Transport::Tcp, ..usual },
            FlowSpec { size: 64_001, ..usual },
            FlowSpec { transport: Transport::Other(4), ..usual },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        assert_eq!(FlowSpec { size: 16, ..usual }.check(), Ok(()));
    }
}
