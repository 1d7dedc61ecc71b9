//! Constant traffic in RUDE's manner, where RUDE cannot be had: a UDP socket, one call for each datagram, and a loop that reads the
//! clock until the next is due.
//!
//! RUDE's deadlines are multiples of the gap from the start, and what is late is sent at once. Its priority (SCHED_FIFO) is set by
//! `chrt`, which starts this. The benchmark calls itself so, in a process of its own that can be watched and ended.

use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;
use std::time::{Duration, Instant};

use crate::lab::Failure;

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Where to.
    pub to: SocketAddr,
    /// Datagrams per second.
    pub rate: u64,
    /// Bytes of payload.
    pub payload: u16,
}

impl FromStr for Constant {
    type Err = String;

    /// `ADDRESS:PORT,RATE,PAYLOAD`
    fn from_str(text: &str) -> Result<Constant, String> {
        let mut parts = text.split(',');
        let mut next = || parts.next().ok_or("it is ADDRESS:PORT,RATE,PAYLOAD");
        let to = next()?.parse().map_err(|why| format!("{why}"))?;
        let rate = next()?.parse().map_err(|why| format!("{why}"))?;
        let payload = next()?.parse().map_err(|why| format!("{why}"))?;
        (rate > 0).then_some(Constant { to, rate, payload }).ok_or("the rate is 0".to_owned())
    }
}

/// Sends until it is killed.
pub fn send(constant: &Constant) -> Result<(), Failure> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(constant.to)?;
    let payload = vec![0; constant.payload.into()];
    let begun = Instant::now();
    for number in 0_u64.. {
        let due = Duration::from_nanos(number.saturating_mul(1_000_000_000) / constant.rate);
        while begun.elapsed() < due {
            std::hint::spin_loop();
        }
        // the port may be closed, or the buffer full: RUDE goes on
        let _ = socket.send(&payload);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_send_is_an_address_a_rate_and_a_length() {
        let constant: Constant = "10.77.0.2:9,5102,1470".parse().unwrap();
        assert_eq!((constant.to.port(), constant.rate, constant.payload), (9, 5102, 1470));
        for wrong in ["", "10.77.0.2:9", "10.77.0.2:9,5102", "10.77.0.2:9,0,18", "x,1,1", "::1,1,1"]
        {
            assert!(wrong.parse::<Constant>().is_err(), "{wrong}");
        }
    }
}
