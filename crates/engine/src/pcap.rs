//! A port that writes frames to a pcapng file instead of a wire: for dry runs, golden tests, and to
//! look at what a scenario will send.
//!
//! It holds frames until their launch times, in the sense that a frame's launch time becomes its
//! timestamp in the file and the transmit time in its probe. The same frames give the same bytes: the
//! file names neither machine nor day. It sends on no wire and receives nothing.
//!
//! The format is draft-ietf-opsawg-pcapng, one section with one Ethernet interface and timestamps in
//! nanoseconds.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, Endianness, PcapError};
use wirebeat_meter::departures::DepartureRecorder;
use wirebeat_units::{Nanos, fault};
use wirebeat_wire::codec::Moment;

use crate::port::{DepartureRecord, PortError, TxCaps, TxMeta, TxPlan, TxPort, TxTotals};

const ENGINE: &str = "pcap";
/// Frames that can be reserved at once.
const BATCH: usize = 256;
/// `if_tsresol` for nanoseconds: the negative power of ten.
const NANOSECONDS: u8 = 9;

/// How a capture file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapOptions {
    /// What is going to be written.
    pub plan: TxPlan,
    /// What the file calls the zero of the run's clock, counted from 1970. With [`Nanos::ZERO`] the
    /// file shows launch times as they are.
    pub epoch: Nanos,
}

/// What is known of the frames of a tag.
#[derive(Clone, Debug, Default)]
struct Tag {
    /// The number of the next.
    next: u32,
    totals: TxTotals,
    span: Option<(Nanos, Nanos)>,
    departures: DepartureRecorder,
}

/// A port that writes to a capture file.
pub struct PcapTx<W: Write> {
    caps: TxCaps,
    writer: PcapNgWriter<W>,
    /// What the file is called in messages.
    name: String,
    epoch: Nanos,
    unix_offset: u64,
    slots: Vec<Vec<u8>>,
    reserved: usize,
    tags: Vec<Tag>,
    /// Launch time of the last frame: that of a frame that has none of its own.
    last: Nanos,
}

impl PcapTx<BufWriter<File>> {
    /// Writes to a new file at `path`; one that is there is overwritten.
    pub fn create(path: &Path, options: &PcapOptions) -> Result<Self, PortError> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|source| refused(&name, source))?;
        Self::new(BufWriter::new(file), &name, options)
    }
}

impl<W: Write + Send> PcapTx<W> {
    /// Writes to `writer`, which messages call `name`.
    pub fn new(writer: W, name: &str, options: &PcapOptions) -> Result<Self, PortError> {
        let failed = |error| refused(name, io_error(error));
        // one byte order everywhere, so that files can be compared
        let mut writer =
            PcapNgWriter::with_endianness(writer, Endianness::Little).map_err(failed)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Borrowed("wirebeat")),
                InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
            ],
        };
        writer.write_pcapng_block(interface).map_err(failed)?;
        let frame_max = options.plan.frame_max.size();
        Ok(PcapTx {
            caps: TxCaps {
                holds: true,
                ..TxCaps::of_frames(ENGINE, format!("pcapng file {name}"), frame_max, BATCH)
            },
            writer,
            name: name.to_owned(),
            epoch: options.epoch,
            unix_offset: options.plan.unix_offset,
            slots: vec![vec![0; frame_max]; BATCH],
            reserved: 0,
            tags: vec![Tag::default(); options.plan.tags as usize],
            last: Nanos::ZERO,
        })
    }

    /// Ends the file and gives back what it was written to.
    pub fn finish(mut self) -> Result<W, PortError> {
        self.flush()?;
        Ok(self.writer.into_inner())
    }

    /// Hands over nothing when one of `metas` is wrong.
    fn check(&self, metas: &[TxMeta]) -> Result<(), PortError> {
        let wrong = |what| Err(PortError::Unsupported { engine: ENGINE, what });
        if metas.len() > self.reserved {
            return wrong(fault!("write {} frames", metas.len(); "{} are reserved", self.reserved));
        }
        for meta in metas {
            if usize::from(meta.len) > self.caps.frame_max {
                let most = self.caps.frame_max;
                return wrong(
                    fault!("write {} bytes", meta.len; "it was opened for {most} at most"),
                );
            }
            if meta.tag as usize >= self.tags.len() {
                let tags = self.tags.len();
                return wrong(fault!("count by tag {}", meta.tag; "it was opened for {tags} tags"));
            }
        }
        Ok(())
    }

    /// Numbers and stamps the frame in slot `index`, and writes it.
    fn write(&mut self, index: usize, meta: &TxMeta) -> Result<(), PortError> {
        let tag = &mut self.tags[meta.tag as usize];
        let frame = &mut self.slots[index][..usize::from(meta.len)];
        if meta.launch != Nanos::ZERO {
            self.last = meta.launch;
        }
        let monotonic_ns = self.last.get();
        let unix_ns = monotonic_ns.wrapping_add(self.unix_offset);
        meta.stamp.write(frame, meta.number.unwrap_or(tag.next), Moment { monotonic_ns, unix_ns });
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: Duration::from_nanos(self.epoch.saturating_add(self.last).get()),
            original_len: meta.len.into(),
            data: Cow::Borrowed(frame),
            options: Vec::new(),
        };
        if let Err(error) = self.writer.write_pcapng_block(block) {
            tag.totals.failed.add(meta.counted);
            return Err(refused(&self.name, io_error(error)));
        }
        tag.next = tag.next.wrapping_add(1);
        tag.totals.sent.add(meta.counted);
        tag.span = Some((tag.span.map_or(self.last, |(first, _)| first), self.last));
        if meta.launch != Nanos::ZERO {
            tag.departures.record(self.last, 0);
        }
        Ok(())
    }
}

impl<W: Write> fmt::Debug for PcapTx<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PcapTx").field("name", &self.name).finish_non_exhaustive()
    }
}

fn refused(name: &str, source: io::Error) -> PortError {
    PortError::System { what: "writing the capture file".into(), on: name.to_owned(), source }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

impl<W: Write + Send> TxPort for PcapTx<W> {
    fn caps(&self) -> &TxCaps {
        &self.caps
    }

    fn reserve(&mut self, want: usize) -> Result<usize, PortError> {
        self.reserved = self.reserved.max(want.min(BATCH));
        Ok(self.reserved)
    }

    fn slot(&mut self, index: usize) -> &mut [u8] {
        assert!(index < self.reserved, "frame {index} of {} reserved ones", self.reserved);
        &mut self.slots[index]
    }

    fn commit(&mut self, metas: &[TxMeta]) -> Result<(), PortError> {
        self.check(metas)?;
        let mut outcome = Ok(());
        for (index, meta) in metas.iter().enumerate() {
            match &outcome {
                Ok(()) => outcome = self.write(index, meta),
                Err(_) => {
                    let failed = &mut self.tags[meta.tag as usize].totals.failed;
                    failed.add(meta.counted);
                }
            }
        }
        // those that stay reserved come first now
        self.slots[..self.reserved].rotate_left(metas.len());
        self.reserved -= metas.len();
        outcome
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.writer.get_mut().flush().map_err(|source| refused(&self.name, source))
    }

    fn drain(&mut self, _deadline: Nanos) -> Result<bool, PortError> {
        self.flush().map(|()| true)
    }

    fn totals(&self, totals: &mut [TxTotals]) {
        for (sum, tag) in totals.iter_mut().zip(&self.tags) {
            *sum += tag.totals;
        }
    }

    fn departures(&self, tag: u32) -> DepartureRecord {
        let record = |tag: &Tag| DepartureRecord {
            span: tag.span,
            departures: tag.departures.departures(),
            late: 0,
        };
        self.tags.get(tag as usize).map(record).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{Block, PcapNgReader};
    use wirebeat_traffic::program::Counted;
    use wirebeat_wire::probe::Probe;
    use wirebeat_wire::stamp::Stamp;

    use wirebeat_units::{BufferLen, FrameLen};

    use super::*;

    const OPTIONS: PcapOptions = PcapOptions {
        plan: TxPlan {
            tags: 2,
            frame_max: BufferLen::new(64),
            frame_len: None,
            cut: false,
            paced: true,
            unix_offset: 0,
            round: 0,
        },
        epoch: Nanos::ZERO,
    };

    fn port(options: &PcapOptions) -> PcapTx<Vec<u8>> {
        PcapTx::new(Vec::new(), "test.pcapng", options).unwrap()
    }

    fn meta(len: u16, tag: u32, launch: u64) -> TxMeta {
        let counted = Counted::frame(FrameLen::without_fcs(len), 0);
        TxMeta { len, tag, counted, launch: Nanos::new(launch), ..TxMeta::default() }
    }

    /// Commits frames of `(length, tag, launch)`, each filled with its index.
    fn send(port: &mut PcapTx<Vec<u8>>, frames: &[(u16, u32, u64)]) {
        assert_eq!(port.reserve(frames.len()).unwrap(), frames.len());
        let mut metas = Vec::new();
        for (index, &(len, tag, launch)) in frames.iter().enumerate() {
            port.slot(index).fill(index as u8);
            metas.push(meta(len, tag, launch));
        }
        port.commit(&metas).unwrap();
    }

    /// Time and bytes of the frames in a file, and the resolution that it states.
    fn read(file: &[u8]) -> (Option<u8>, Vec<(u64, Vec<u8>)>) {
        let mut reader = PcapNgReader::new(file).unwrap();
        let (mut resolution, mut frames) = (None, Vec::new());
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    resolution = interface.options.iter().find_map(|option| match option {
                        InterfaceDescriptionOption::IfTsResol(resolution) => Some(*resolution),
                        _ => None,
                    });
                }
                Block::EnhancedPacket(packet) => {
                    assert_eq!(packet.original_len as usize, packet.data.len());
                    frames.push((packet.timestamp.as_nanos() as u64, packet.data.to_vec()));
                }
                _ => {}
            }
        }
        (resolution, frames)
    }

    #[test]
    fn frames_are_read_back_with_their_launch_times() {
        let mut port = port(&OPTIONS);
        send(&mut port, &[(60, 0, 1_000), (61, 1, u64::from(u32::MAX) + 7), (0, 0, 1 << 60)]);
        let (resolution, frames) = read(&port.finish().unwrap());
        assert_eq!(resolution, Some(9));
        let expected = vec![(1_000, vec![0; 60]), (4_294_967_302, vec![1; 61]), (1 << 60, vec![])];
        assert_eq!(frames, expected);
    }

    #[test]
    fn the_file_is_these_bytes() {
        let mut port = port(&OPTIONS);
        send(&mut port, &[(5, 0, 0x1_0000_0002)]);
        let file = port.finish().unwrap();
        let expected = [
            // section: little-endian, version 1.0, length unknown, no options
            "0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffffffffffff 1c000000",
            // interface: Ethernet, whole frames, name, nanoseconds, end of options
            "01000000 2c000000 01000000 00000000 02000800 7769726562656174 09000100 09000000 00000000 \
             2c000000",
            // packet: interface 0, time high and low, lengths, five bytes and padding
            "06000000 28000000 00000000 01000000 02000000 05000000 05000000 0000000000 000000 28000000",
        ];
        let hex: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected: String = expected.concat().split_whitespace().collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn probes_carry_the_number_by_tag_and_the_launch_time() {
        let mut port = port(&OPTIONS);
        let stamp = Stamp { probe_at: 42, ..Stamp::default() };
        port.reserve(4).unwrap();
        let template = Probe { flow: 9, sequence: 0, transmit_ns: 0 }.to_bytes();
        for index in 0..4 {
            port.slot(index)[42..58].copy_from_slice(&template);
        }
        let metas = [(0, 10), (1, 20), (0, 30), (1, 40)]
            .map(|(tag, at)| TxMeta { stamp, ..meta(58, tag, at) });
        port.commit(&metas).unwrap();
        let (_, frames) = read(&port.finish().unwrap());
        let probes: Vec<_> = frames
            .iter()
            .map(|(_, bytes)| Probe::from_tail(bytes).unwrap())
            .map(|probe| (probe.flow, probe.sequence, probe.transmit_ns))
            .collect();
        assert_eq!(probes, [(9, 0, 10), (9, 0, 20), (9, 1, 30), (9, 1, 40)]);
    }

    #[test]
    fn the_epoch_moves_the_file_and_not_the_probes() {
        let epoch = Nanos::from_secs(1_800_000_000);
        let mut port = port(&PcapOptions { epoch, ..OPTIONS });
        send(&mut port, &[(60, 0, 5)]);
        assert_eq!(port.departures(0).span, Some((Nanos::new(5), Nanos::new(5))));
        let (_, frames) = read(&port.finish().unwrap());
        assert_eq!(frames[0].0, 1_800_000_000_000_000_005);
    }

    #[test]
    fn a_frame_without_launch_time_follows_the_one_before() {
        let mut port = port(&OPTIONS);
        send(&mut port, &[(60, 0, 0), (60, 0, 7), (60, 0, 0)]);
        let record = port.departures(0);
        assert_eq!(
            (record.departures.lateness.moments.count, record.departures.lateness.moments.max),
            (1, 0)
        );
        let times: Vec<_> = read(&port.finish().unwrap()).1.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 7, 7]);
    }

    #[test]
    fn what_is_not_committed_stays_reserved() {
        let mut port = port(&OPTIONS);
        port.reserve(3).unwrap();
        for index in 0..3 {
            port.slot(index)[0] = index as u8;
        }
        port.commit(&[meta(1, 0, 1)]).unwrap();
        assert_eq!((port.slot(0)[0], port.slot(1)[0]), (1, 2));
        port.commit(&[meta(1, 0, 2), meta(1, 0, 3)]).unwrap();
        let (_, frames) = read(&port.finish().unwrap());
        assert_eq!(frames, [(1, vec![0]), (2, vec![1]), (3, vec![2])]);
    }

    #[test]
    fn wrong_metas_are_refused_and_nothing_is_written() {
        let mut port = port(&OPTIONS);
        port.reserve(1).unwrap();
        for (metas, expected) in [
            (vec![meta(65, 0, 0)], "write 65 bytes; it was opened for 64 at most"),
            (vec![meta(60, 2, 0)], "count by tag 2; it was opened for 2 tags"),
            (vec![meta(60, 0, 0); 2], "write 2 frames; 1 are reserved"),
        ] {
            let error = port.commit(&metas).unwrap_err().to_string();
            assert_eq!(error, format!("the pcap engine cannot {expected}"));
        }
        assert_eq!(read(&port.finish().unwrap()).1, []);
    }

    /// A disk with room for so many bytes.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_and_every_frame_counted() {
        // the headers take 72 bytes, a frame of 60 takes 92
        let mut port = PcapTx::new(Disk(72 + 92 + 50), "test.pcapng", &OPTIONS).unwrap();
        port.reserve(3).unwrap();
        let error = port.commit(&[meta(60, 0, 1), meta(60, 0, 2), meta(60, 1, 3)]).unwrap_err();
        assert_eq!(error.to_string(), "writing the capture file on test.pcapng: no storage space");
        let mut totals = [TxTotals::default(); 2];
        port.totals(&mut totals);
        assert_eq!(
            (totals[0].sent.frames, totals[0].failed.frames, totals[1].failed.frames),
            (1, 1, 1)
        );
        assert_eq!(port.reserve(0).unwrap(), 0, "none is committed twice");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_told() {
        let error = PcapTx::create(Path::new("/no/such/folder/x.pcapng"), &OPTIONS).unwrap_err();
        assert!(
            error.to_string().starts_with("writing the capture file on /no/such/folder/x.pcapng")
        );
    }
}
