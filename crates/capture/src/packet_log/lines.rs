//! The logs of MGEN and CRUDE, line by line, for scripts that were made for them: of what arrives and carries a probe of the
//! formats that are asked for. What does not has no line.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;

use wirebeat_meter::filter::Filter;
use wirebeat_units::FCS;
use wirebeat_wire::codec::{self, Codec, Sent};
use wirebeat_wire::datagram::Datagram;

use wirebeat_wire::log::{Received, crude, mgen};

use super::{whole_lines, write_text};
use crate::seen::{InterfaceCounts, Seen};
use crate::sink::{Sink, Written};

/// Bytes of text that are written at once.
const GATHERED: usize = 1 << 16;
/// The longest frame: an IP packet of 65,535 bytes and its Ethernet header.
const FRAME_MAX: usize = 1 << 17;
/// Bytes of a frame that hold its headers and a probe at the head of its payload: Ethernet 14, two VLAN tags 8, IPv4 with
/// options 60 (or IPv6 40), UDP 8, and the longest head of a format, iperf2's 76. Rounded up.
pub(super) const WANTED_LEN: u32 = 192;

/// Whose form the lines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Mgen,
    Crude,
}

/// Which packets have a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineOptions {
    /// The formats of the probes that are read, in the order in which they are tried.
    pub codecs: Vec<Codec>,
    /// Which datagrams are looked at.
    pub filter: Filter,
}

/// Writes the log.
pub(super) struct LineLog {
    tool: Tool,
    to: Box<dyn Write + Send>,
    options: LineOptions,
    text: Vec<u8>,
    /// A frame of which only the first bytes were kept, at its full length.
    frame: Vec<u8>,
    lines: u64,
    written: Written,
    /// Whether what stands before the first packet was written.
    began: bool,
    broken: bool,
}

impl LineLog {
    /// Begins the log at a time in nanoseconds since 1970.
    pub(super) fn new(
        (tool, options): (Tool, &LineOptions),
        to: Box<dyn Write + Send>,
        path: Option<PathBuf>,
        unix_ns: u64,
    ) -> io::Result<LineLog> {
        let mut log = LineLog {
            tool,
            to,
            options: options.clone(),
            text: Vec::new(),
            frame: Vec::new(),
            lines: 0,
            written: Written { files: path.into_iter().collect(), ..Written::default() },
            began: false,
            broken: false,
        };
        if tool == Tool::Mgen {
            log.line(&mgen::MgenLine::Start { at_ns: unix_ns })?;
            if let Some(port) = options.filter.destination_port {
                log.line(&mgen::MgenLine::Listen { at_ns: unix_ns, port })?;
            }
        }
        log.flush()?;
        Ok(log)
    }

    fn line(&mut self, line: &dyn std::fmt::Display) -> io::Result<()> {
        writeln!(self.text, "{line}")
    }

    /// What a frame says of itself that has a line.
    fn received(&mut self, seen: &Seen<'_>) -> Option<Received> {
        let whole = (seen.frame_len as usize).saturating_sub(FCS.into()).min(FRAME_MAX);
        let is_cut = seen.bytes.len() < whole;
        let frame = if is_cut {
            // lengths in headers have to agree with that of the frame; bytes that were not kept read as zeros
            self.frame.clear();
            self.frame.extend_from_slice(seen.bytes);
            self.frame.resize(whole, 0);
            &self.frame
        } else {
            seen.bytes
        };
        let datagram = Datagram::parse(frame).ok()?;
        let source = SocketAddr::new(datagram.source, datagram.source_port);
        let LineOptions { codecs, filter } = &self.options;
        if !filter.matches(Some(source), Some(datagram.destination_port)) {
            return None;
        }
        // Wirebeat's own probe ends the payload: of a frame that was cut, the end that is missing reads as zeros
        let probe = codecs.iter().find_map(|codec| match codec {
            Codec::Wirebeat if is_cut => None,
            codec => codec.read(datagram.payload),
        });
        let probe =
            probe.or_else(|| own_probe(seen).filter(|_| codecs.contains(&Codec::Wirebeat)))?;
        let arrived_ns = seen.unix_ns;
        // both clocks of this host at one moment
        let monotonic_ahead = seen.at.get().wrapping_sub(seen.unix_ns);
        let sent_ns = probe.sent.and_then(|sent| match sent {
            // on one host; between two this is as wrong as their clocks differ
            Sent::Monotonic(ns) => Some(ns.wrapping_sub(monotonic_ahead)),
            other => other.unix_ns(arrived_ns),
        });
        Some(Received {
            arrived_ns,
            sent_ns,
            flow: probe.flow.unwrap_or(0),
            sequence: probe.sequence,
            source,
            destination: (datagram.destination, datagram.destination_port).into(),
            size: datagram.payload.len() as u32,
            // none arrives with 0: headers that were made where a socket did not say it
            ttl: Some(datagram.ttl).filter(|ttl| *ttl > 0),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.broken {
            return Ok(());
        }
        let (bytes, written) = write_text(&mut *self.to, &self.text);
        let lines = std::mem::take(&mut self.lines);
        // what is not of a packet stands alone in a text, or behind all that is
        let kept = if self.began { whole_lines(&self.text, bytes).min(lines) } else { 0 };
        self.written.bytes += bytes as u64;
        self.written.frames += kept;
        self.written.lost += lines - kept;
        self.broken = written.is_err();
        self.began = true;
        self.text.clear();
        written
    }
}

/// The probe of Wirebeat that its receiver found: it ends the payload, where only the first bytes of a frame were kept.
fn own_probe(seen: &Seen<'_>) -> Option<codec::Seen> {
    let sent = seen.sent.map(|sent| Sent::Monotonic(sent.get()));
    let (flow, sequence) = (seen.flow.map(u32::from), seen.sequence?.into());
    Some(codec::Seen { flow, sequence, sent, last: false })
}

impl Sink for LineLog {
    fn frame(&mut self, seen: &Seen<'_>) -> io::Result<()> {
        if !seen.outcome.is_received() {
            return Ok(());
        }
        let Some(received) = self.received(seen) else { return Ok(()) };
        if self.broken {
            self.written.lost += 1;
            return Ok(());
        }
        match self.tool {
            Tool::Mgen => self.line(&mgen::MgenLine::Receive(received))?,
            Tool::Crude => self.line(&crude::CrudeLine(received))?,
        }
        self.lines += 1;
        if self.text.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn pause(&mut self, _unix_ns: u64, _counts: &[InterfaceCounts]) -> io::Result<()> {
        if self.text.is_empty() { Ok(()) } else { self.flush() }
    }

    fn written(&self) -> Written {
        self.written.clone()
    }

    fn finish(&mut self, unix_ns: u64, _counts: &[InterfaceCounts]) -> io::Result<()> {
        if self.tool == Tool::Mgen {
            self.line(&mgen::MgenLine::Stop { at_ns: unix_ns })?;
        }
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use wirebeat_meter::observation::Standing;
    use wirebeat_units::Nanos;
    use wirebeat_wire::codec::Facts;
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::testing::udp_frame;

    use super::*;
    use crate::seen::Outcome;

    /// 2026-11-23T03:25:17Z.
    const DAY_NS: u64 = 1_795_404_317_000_000_000;
    const MONOTONIC_NS: u64 = 7_000_000_000;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn payload(codec: Codec, sequence: u64, sent_ns: u64, len: usize) -> Vec<u8> {
        let mut payload = vec![0; len];
        let destination = ([10, 0, 0, 2], 5001).into();
        codec.blank(&Facts { flow: 7, destination }, &mut payload).unwrap();
        codec.marks().write(&mut payload, sequence + codec.first_sequence(), sent_ns);
        payload
    }

    fn seen(bytes: &[u8], frame_len: u32) -> Seen<'_> {
        Seen {
            interface: 0,
            queue: 0,
            hash: None,
            outcome: Outcome::Received(Standing::New),
            at: Nanos::new(MONOTONIC_NS),
            unix_ns: DAY_NS + 345_000,
            flow: None,
            sequence: None,
            sent: None,
            due: None,
            frame_len,
            sampled: None,
            bytes,
        }
    }

    fn logged(tool: Tool, codecs: &[Codec], frames: &[Seen<'_>]) -> String {
        let page = Page::default();
        let filter = Filter { destination_port: Some(5001), ..Filter::default() };
        let options = LineOptions { codecs: codecs.to_vec(), filter };
        let mut log = LineLog::new((tool, &options), Box::new(page.clone()), None, DAY_NS).unwrap();
        frames.iter().for_each(|seen| log.frame(seen).unwrap());
        log.finish(DAY_NS + 2_000_000_000, &[]).unwrap();
        assert_eq!(log.written().bytes, page.0.lock().unwrap().len() as u64);
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn lines_are_as_mgen_writes_them() {
        let whole =
            udp_frame("10.0.0.1:4000", "10.0.0.2:5001", &payload(Codec::Mgen, 3, DAY_NS, 1400));
        let other =
            udp_frame("10.0.0.1:4000", "10.0.0.2:5002", &payload(Codec::Mgen, 3, DAY_NS, 64));
        let len = whole.len() as u32 + 4;
        // a frame, its first bytes, one for another port, one that was sent, one without a probe
        let frames = [
            seen(&whole, len),
            seen(&whole[..128], len),
            seen(&other, other.len() as u32 + 4),
            Seen { outcome: Outcome::Sent, ..seen(&whole, len) },
            seen(&whole[..20], 64),
        ];
        let line = "03:25:17.000345 RECV proto>UDP flow>7 seq>3 src>10.0.0.1/4000 dst>10.0.0.2/5001 \
                    sent>03:25:17.000000 size>1400 ttl>64 gps>INVALID,999.000000,999.000000,4294966297 \n";
        assert_eq!(
            logged(Tool::Mgen, &[Codec::Mgen], &frames),
            format!(
                "03:25:17.000000 START Mgen Version 5.02b\n03:25:17.000000 LISTEN proto>UDP port>5001\n\
                 {line}{line}03:25:19.000000 STOP\n"
            )
        );
    }

    #[test]
    fn lines_are_as_crude_writes_them() {
        let frame =
            udp_frame("10.0.0.1:4000", "10.0.0.2:5001", &payload(Codec::Rude, 3, DAY_NS, 64));
        assert_eq!(
            logged(Tool::Crude, &[Codec::Rude], &[seen(&frame, frame.len() as u32 + 4)]),
            "ID=7 SEQ=3 SRC=10.0.0.1:4000 DST=10.0.0.2:5001 Tx=1795404317.000000 \
             Rx=1795404317.000345 SIZE=64\n"
        );
    }

    /// Takes so many bytes, and then is full.
    struct Room(usize);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_without_room_are_lost_and_counted() {
        let frame =
            udp_frame("10.0.0.1:4000", "10.0.0.2:5001", &payload(Codec::Rude, 3, DAY_NS, 64));
        let seen = seen(&frame, frame.len() as u32 + 4);
        let options = LineOptions { codecs: vec![Codec::Rude], ..LineOptions::default() };
        let line = logged(Tool::Crude, &[Codec::Rude], &[seen]).len();
        let room = Box::new(Room(line * 5 / 2));
        let mut log = LineLog::new((Tool::Crude, &options), room, None, DAY_NS).unwrap();
        (0..4).for_each(|_| log.frame(&seen).unwrap());
        assert_eq!(log.pause(DAY_NS, &[]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        (0..3).for_each(|_| log.frame(&seen).unwrap());
        log.finish(DAY_NS, &[]).unwrap();
        let Written { frames, lost, .. } = log.written();
        assert_eq!((frames, lost), (2, 5));
    }

    /// The probe of Wirebeat ends the payload, so the receiver has to say what was in it.
    #[test]
    fn wirebeat_s_own_probe_has_a_line_where_its_bytes_were_not_kept() {
        let probe = Probe { flow: 9, sequence: 4, transmit_ns: MONOTONIC_NS - 45_000 };
        let frame = udp_frame(
            "10.0.0.1:4000",
            "10.0.0.2:5001",
            &[&[0; 500][..], &probe.to_bytes()].concat(),
        );
        let len = frame.len() as u32 + 4;
        let told = Seen {
            flow: Some(9),
            sequence: Some(4),
            sent: Some(Nanos::new(probe.transmit_ns)),
            ..seen(&frame[..128], len)
        };
        let expected = "ID=9 SEQ=4 SRC=10.0.0.1:4000 DST=10.0.0.2:5001 Tx=1795404317.000300 \
                        Rx=1795404317.000345 SIZE=516\n";
        for seen in [told, seen(&frame, len)] {
            assert_eq!(logged(Tool::Crude, &[Codec::Wirebeat], &[seen]), expected);
        }
        assert_eq!(logged(Tool::Crude, &[Codec::Mgen], &[told]), "");
    }
}
