//! The program that hands frames to the sockets (`bpf/steer.bpf.c`, or for a station `bpf/station.bpf.c`): loaded, told what is wanted, and put into the place that a
//! port has for the one XDP program of its interface. Between the runs of a lab it leaves that place and stays loaded.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use wirebeat_engine::port::PortError;
use wirebeat_meter::filter::Filter;
use wirebeat_meter::headers::HeaderTable;
use wirebeat_meter::meter::{Flows, MeterConfig};
use wirebeat_units::fault;
use wirebeat_wire::headers;
use wirebeat_wire::mac::MacAddr;

use super::ENGINE;
use crate::kernel::configure::FilterWords;
use crate::kernel::known_headers::KnownHeaders;
use crate::kernel::load::{entries, system};
use crate::kernel::skeletons::station::StationSkelBuilder;
use crate::kernel::skeletons::steer::{OpenSteerSkel, SteerSkelBuilder};
use crate::kernel::skeletons::steer_metadata::{OpenSteerMetadataSkel, SteerMetadataSkelBuilder};
use crate::kernel::verifier;
use crate::kernel::{Attachment, SEVERAL_BUFFERS};

/// The numbers that a probe can have for its flow, and how many of them a word of the program's map has.
const FLOWS: usize = 1 << 16;
const WORD: usize = u64::BITS as usize;
/// BPF_F_XDP_DEV_BOUND_ONLY of `linux/bpf.h`: a program that asks the driver of one interface.
const FOR_ONE_INTERFACE: u32 = 1 << 6;

/// What is handed over beside frames with probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SteerOptions {
    /// The number of queues that have sockets: those below it.
    pub queues: u32,
    /// Whether fragments are handed over, because packets are put together by the reader. The host gets none of its own then.
    pub fragments: bool,
    /// What the driver says of each frame.
    pub known: KnownOfFrames,
}

/// What a driver says of frames that it received, if it can (XDP metadata, Linux 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownOfFrames {
    /// When it arrived, by the card's clock.
    pub stamps: bool,
    /// What the card chose its queue by.
    pub hashes: bool,
}

impl KnownOfFrames {
    /// Whether the driver is asked at all.
    fn any(self) -> bool {
        self.stamps || self.hashes
    }
}

/// What a program is made for. Flows with probes can change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SteerConfig {
    filter: FilterWords,
    /// Whether all datagrams that match the filter are handed over.
    datagrams: bool,
    headers: HeaderTable,
    options: SteerOptions,
}

/// Frames of an interface go to the sockets of its queues. When it is dropped, everything passes to the stack again.
#[derive(Debug)]
pub struct Steering {
    program: OwnedFd,
    sockets: MapHandle,
    /// Where flows that are measured are told, and what the program is made for; `None`: for a station.
    measured: Option<(MapHandle, SteerConfig)>,
    attachment: Arc<Attachment>,
    interface: String,
}

/// Ethernet addresses by the bits that they have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationMask {
    /// The bits that they have, where the mask has ones; zeros elsewhere.
    pub value: MacAddr,
    /// Which bits count.
    pub mask: MacAddr,
}

impl StationMask {
    /// Whether an address has the bits.
    pub fn takes(&self, mac: MacAddr) -> bool {
        mac.to_bits() & self.mask.to_bits() == self.value.to_bits()
    }
}

impl Steering {
    /// Hands what `meter` measures to the sockets that are added.
    ///
    /// # Errors
    /// The program cannot be loaded, or not put into its place; or flows are known by more sets of headers than it has room for.
    pub fn begin(
        on: (&str, Arc<Attachment>),
        meter: &MeterConfig,
        options: SteerOptions,
    ) -> Result<Steering, PortError> {
        let steering = load(on, meter, options).and_then(|steering| {
            steering.attachment.replace(steering.program.as_fd())?;
            Ok(steering)
        });
        steering.map_err(|error| error.of_engine(ENGINE))
    }

    /// Hands what is for the Ethernet addresses of `stations` to the socket of the first queue.
    ///
    /// # Errors
    /// The program cannot be loaded, or not put into its place.
    pub fn for_station(
        on: (&str, Arc<Attachment>),
        stations: StationMask,
    ) -> Result<Steering, PortError> {
        let steering = load_for_station(on, stations).and_then(|steering| {
            steering.attachment.replace(steering.program.as_fd())?;
            Ok(steering)
        });
        steering.map_err(|error| error.of_engine(ENGINE))
    }

    /// Hands what `meter` measures to the same sockets. Says `false`, and does nothing, where that takes another program.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn restart(&self, meter: &MeterConfig, options: SteerOptions) -> Result<bool, PortError> {
        let measured = self.measured.as_ref();
        let Some((flows, _)) = measured.filter(|(_, own)| *own == config(meter, options)) else {
            return Ok(false);
        };
        let again = measure(flows, &meter.flows)
            .map_err(|error| system("writing numbers of flows", &self.interface, error))
            .and_then(|()| self.attachment.replace(self.program.as_fd()));
        again.map(|()| true).map_err(|error| error.of_engine(ENGINE))
    }

    /// Whether it puts what the driver knows before each frame.
    pub(super) fn says_what_drivers_know(&self) -> bool {
        self.measured.as_ref().is_some_and(|(_, config)| config.options.known.any())
    }

    /// Lets everything pass until it is restarted.
    pub(super) fn rest(&self) {
        self.attachment.rest();
    }

    /// Hands frames of queue `number` to `socket`.
    pub(super) fn add(&self, number: u32, socket: BorrowedFd<'_>) -> Result<(), PortError> {
        let file = socket.as_raw_fd().to_ne_bytes();
        self.sockets
            .update(&number.to_ne_bytes(), &file, MapFlags::ANY)
            .map_err(|error| system("handing frames to a socket", &self.interface, error))
            .map_err(|error| error.of_engine(ENGINE))
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        self.rest();
    }
}

fn config(meter: &MeterConfig, options: SteerOptions) -> SteerConfig {
    SteerConfig {
        filter: (&meter.filter).into(),
        // without a choice these would be all that the host itself receives
        datagrams: meter.filter != Filter::default() || !meter.codecs.read.is_empty(),
        headers: meter.headers.clone(),
        options,
    }
}

fn load(
    (interface, attachment): (&str, Arc<Attachment>),
    meter: &MeterConfig,
    options: SteerOptions,
) -> Result<Steering, PortError> {
    verifier::listen();
    let known = KnownHeaders::of(meter);
    let Some(masks) = known.masks() else {
        let what = fault!("recognise flows by so many sets of headers"; "use --engine packet");
        return Err(PortError::Unsupported { engine: ENGINE, what });
    };
    let wanted = Wanted { interface, attachment, config: config(meter, options), known, masks };
    match options.known.any() {
        true => wanted.load_with_metadata(&meter.flows),
        false => wanted.load_plain(&meter.flows),
    }
}

fn load_for_station(
    (interface, attachment): (&str, Arc<Attachment>),
    StationMask { value: MacAddr(station), mask: MacAddr(mask) }: StationMask,
) -> Result<Steering, PortError> {
    verifier::listen();
    let failed = |what| move |error| system(what, interface, error);
    let mut storage = MaybeUninit::uninit();
    let mut open = StationSkelBuilder::default()
        .open(&mut storage)
        .map_err(failed("opening the program that steers to a station"))?;
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.station[..station.len()].copy_from_slice(&station);
        rodata.mask[..mask.len()].copy_from_slice(&mask);
    }
    if attachment.sees_several_buffers() {
        open.progs.wb_station.set_flags(SEVERAL_BUFFERS);
    }
    let skeleton = open.load().map_err(failed("loading the program that steers to a station"))?;
    let kept = |source: io::Error| PortError::System {
        what: "keeping the program that steers to a station".into(),
        on: interface.to_owned(),
        source,
    };
    Ok(Steering {
        program: skeleton.progs.wb_station.as_fd().try_clone_to_owned().map_err(kept)?,
        sockets: MapHandle::try_from(&skeleton.maps.sockets)
            .map_err(io::Error::other)
            .map_err(kept)?,
        measured: None,
        attachment,
        interface: interface.to_owned(),
    })
}

/// What a program is made of.
struct Wanted<'a> {
    interface: &'a str,
    attachment: Arc<Attachment>,
    config: SteerConfig,
    known: KnownHeaders<'a>,
    masks: Vec<[u64; headers::LEN / 8]>,
}

/// Loads one of the two programs, which differ in name alone, and in what `more` does before loading.
macro_rules! load {
    ($wanted:expr, $flows:expr, $builder:ty, $program:ident, $more:expr) => {{
        let Wanted { interface, attachment, config, known, masks } = $wanted;
        let failed = |what| move |error| system(what, interface, error);
        let mut storage = MaybeUninit::uninit();
        let mut open = <$builder>::default()
            .open(&mut storage)
            .map_err(failed("opening the steering program"))?;
        entries(&mut open.maps.sockets, config.options.queues)?;
        entries(&mut open.maps.headers, known.size().headers as u32)?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            let FilterWords { filtered, family, source, source_port, port } = config.filter;
            (rodata.filtered, rodata.filter_family, rodata.filter_source) =
                (filtered, family, source);
            (rodata.filter_source_port, rodata.filter_port) = (source_port, port);
            rodata.header_mask_count = masks.len() as u32;
            for (place, mask) in rodata.header_masks.iter_mut().zip(masks) {
                place.words = mask;
            }
            rodata.datagrams = u32::from(config.datagrams);
            rodata.fragments = u32::from(config.options.fragments);
            rodata.several = u32::from(attachment.sees_several_buffers());
        }
        let flags = if attachment.sees_several_buffers() { SEVERAL_BUFFERS } else { 0 };
        $more(&mut open, flags);
        let skeleton = open.load().map_err(failed("loading the steering program"))?;
        known.fill(&skeleton.maps.headers, 1).map_err(failed("writing headers of flows"))?;
        measure(&skeleton.maps.flows, $flows).map_err(failed("writing numbers of flows"))?;
        let kept = |source: io::Error| PortError::System {
            what: "keeping the steering program".into(),
            on: interface.to_owned(),
            source,
        };
        let handle = |map: &libbpf_rs::Map<'_>| {
            MapHandle::try_from(map).map_err(io::Error::other).map_err(kept)
        };
        Ok(Steering {
            program: skeleton.progs.$program.as_fd().try_clone_to_owned().map_err(kept)?,
            sockets: handle(&skeleton.maps.sockets)?,
            measured: Some((handle(&skeleton.maps.flows)?, config)),
            attachment,
            interface: interface.to_owned(),
        })
    }};
}

impl Wanted<'_> {
    fn load_plain(self, flows: &Flows) -> Result<Steering, PortError> {
        let more = |open: &mut OpenSteerSkel<'_>, flags| open.progs.wb_steer.set_flags(flags);
        load!(self, flows, SteerSkelBuilder, wb_steer, more)
    }

    /// The one that asks the driver. It is for this interface alone, in the namespace of the calling thread.
    fn load_with_metadata(self, flows: &Flows) -> Result<Steering, PortError> {
        let KnownOfFrames { stamps, hashes } = self.config.options.known;
        let index = self.attachment.index();
        let more = |open: &mut OpenSteerMetadataSkel<'_>, flags| {
            if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
                (rodata.wants_stamp, rodata.wants_hash) = (stamps.into(), hashes.into());
            }
            open.progs.wb_steer_metadata.set_flags(flags | FOR_ONE_INTERFACE);
            open.progs.wb_steer_metadata.set_ifindex(index);
        };
        load!(self, flows, SteerMetadataSkelBuilder, wb_steer_metadata, more)
    }
}

/// Tells the program which flows are measured.
fn measure(map: &impl MapCore, flows: &Flows) -> libbpf_rs::Result<()> {
    let words = match flows {
        Flows::Any(_) => vec![u64::MAX; FLOWS / WORD],
        Flows::Expected(flows) => bits(flows.keys().copied()),
    };
    let keys: Vec<u8> = (0..words.len() as u32).flat_map(u32::to_ne_bytes).collect();
    let values: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    map.update_batch(&keys, &values, words.len() as u32, MapFlags::ANY, MapFlags::ANY)
}

/// A bit for each number.
fn bits(numbers: impl Iterator<Item = u16>) -> Vec<u64> {
    let mut words = vec![0_u64; FLOWS / WORD];
    for number in numbers.map(usize::from) {
        words[number / WORD] |= 1 << (number % WORD);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_bit_of_its_own() {
        let words = bits([0, 1, 63, 64, u16::MAX].into_iter());
        assert_eq!((words[0], words[1], words[1023]), (0x8000_0000_0000_0003, 1, 1 << 63));
        assert_eq!(words.iter().map(|word| word.count_ones()).sum::<u32>(), 5);
    }
}
