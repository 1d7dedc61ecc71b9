//! What a test is to be: plain data, checked before anything is opened.

use wirebeat_units::{BitRate, Bytes, Nanos, fault};

use crate::control::datagram::Counter;
use crate::control::{Parameters, STREAMS_MAX};
use crate::error::{Refusal, code};

/// iperf3's block over TCP.
const TCP_BLOCK: u64 = 128 << 10;
/// The largest block, as iperf3 has it.
const BLOCK_MAX: u64 = 1 << 20;
/// The largest datagram that IPv4 and UDP carry.
const DATAGRAM_MAX: u64 = 65_535 - 20 - 8;
/// The smallest datagram, as iperf3 has it: a header with 64 bits and no room to spare.
const DATAGRAM_MIN: u64 = 16;
/// iperf3's largest socket buffer.
const WINDOW_MAX: u64 = 512 << 20;
/// iperf3's largest segment.
const MSS_MAX: u16 = 9 << 10;
/// iperf3's longest time: a day.
const TIME_MAX: Nanos = Nanos::from_secs(86_400);
/// iperf3's longest omitted time.
const OMIT_MAX: Nanos = Nanos::from_secs(600);
/// Characters in the name of a congestion control (`TCP_CA_NAME_MAX` less the zero).
const CONGESTION_MAX: usize = 15;
/// Characters of a title that are kept.
const TITLE_MAX: usize = 200;

/// What carries the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    #[default]
    Forward,
    /// The server (`-R`).
    Reverse,
    /// Both at once (`--bidir`; iperf 2's `-d`), each with as many streams.
    BothWays,
    /// First the client, then the server, each for the whole amount (iperf 2's `-r`; iperf3 has it not).
    InTurn,
}

impl Direction {
    /// Whether the client sends.
    pub fn client_sends(self) -> bool {
        self != Direction::Reverse
    }
    /// Whether the server sends.
    pub fn server_sends(self) -> bool {
        self != Direction::Forward
    }
}

/// When a test has enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// After this time (`-t`); zero: when it is stopped.
    Time(Nanos),
    /// After so many bytes in one direction, all streams together (`-n`).
    Bytes(Bytes),
    /// After so many blocks in one direction, all streams together (`-k`).
    Blocks(u64),
}

/// What a test is to be. The default is iperf3's: 10 seconds, one stream, TCP, the client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestSpec {
    /// What carries the payload.
    pub protocol: Protocol,
    /// Who sends.
    pub direction: Direction,
    /// Streams in each direction, at most 128 (`-P`).
    pub streams: u32,
    /// When it has enough.
    pub amount: Amount,
    /// A time at the beginning that does not count (`-O`). iperf3's wire has whole seconds; what is less is rounded up.
    pub omit: Nanos,
    /// Payload of a write or a datagram (`-l`). Without: 128 KiB over TCP; over UDP, the control connection's segment.
    pub block: Option<Bytes>,
    /// The rate of each stream, of payload (`-b`). Without: as fast as it goes, over UDP too.
    pub rate: Option<BitRate>,
    /// The socket buffers (`-w`). Without: the kernel's.
    pub window: Option<Bytes>,
    /// The largest segment (`-M`).
    pub mss: Option<u16>,
    /// The congestion control by name (`-C`). Without: the kernel's default.
    pub congestion: Option<String>,
    /// Without Nagle's algorithm (`-N`).
    pub no_delay: bool,
    /// The byte of DSCP and ECN (`-S`).
    pub tos: u8,
    /// Sequence numbers of 64 bits in datagrams (`--udp-counters-64bit`).
    pub counter: Counter,
    /// How often an interval is reported (`-i`), at most every 10 ms; without: never.
    pub interval: Option<Nanos>,
    /// The results are to hold what the server prints (`--get-server-output`).
    pub server_output: bool,
    /// What the client calls the test (`-T`).
    pub title: Option<String>,
}

impl Default for TestSpec {
    fn default() -> Self {
        TestSpec {
            protocol: Protocol::Tcp,
            direction: Direction::Forward,
            streams: 1,
            amount: Amount::Time(Nanos::from_secs(10)),
            omit: Nanos::ZERO,
            block: None,
            rate: None,
            window: None,
            mss: None,
            congestion: None,
            no_delay: false,
            tos: 0,
            counter: Counter::Bits32,
            interval: Some(Nanos::from_secs(1)),
            server_output: false,
            title: None,
        }
    }
}

impl TestSpec {
    /// The test that a client's parameters ask for. An interval is not among them.
    ///
    /// # Errors
    /// What is invalid or cannot be done here, with iperf3's number for it.
    pub fn from_parameters(parameters: &Parameters) -> Result<TestSpec, Refusal> {
        let of = parameters;
        if of.sctp {
            return Err(Refusal::new(code::NO_SCTP, fault!("SCTP is not served")));
        }
        if of.reverse && of.bidirectional {
            return Err(Refusal::new(
                code::REVERSE_AND_BOTH,
                fault!("reverse and both ways exclude each other"),
            ));
        }
        let seconds = |seconds: i64, what: &str, number: i32| {
            let invalid = |_| Refusal::new(number, fault!("{what} of {seconds} s"));
            u64::try_from(seconds).map(Nanos::from_secs).map_err(invalid)
        };
        let amount = match (u64::try_from(of.num), u64::try_from(of.blockcount)) {
            (Ok(bytes @ 1..), _) => Amount::Bytes(Bytes::new(bytes)),
            (_, Ok(blocks @ 1..)) => Amount::Blocks(blocks),
            _ => Amount::Time(seconds(of.time, "a time", code::DURATION)?),
        };
        let size = |bytes: i64, what: &str, number: i32| match u64::try_from(bytes) {
            Ok(0) => Ok(None),
            Ok(bytes) => Ok(Some(Bytes::new(bytes))),
            Err(_) => Err(Refusal::new(number, fault!("{what} of {bytes} B"))),
        };
        let mss = match u16::try_from(of.mss) {
            Ok(0) => None,
            Ok(mss) => Some(mss),
            Err(_) => return Err(Refusal::new(code::MSS, fault!("segments of {} B", of.mss))),
        };
        let rate = |rate: i64| match u64::try_from(rate) {
            Ok(0) => Ok(None),
            Ok(rate) => Ok(Some(BitRate(rate))),
            Err(_) => Err(Refusal::new(code::RATE, fault!("a rate of {rate} bit/s"))),
        };
        // what the kernel is to keep (`--fq-rate`), the sender keeps
        let rate = rate(of.bandwidth)?.into_iter().chain(rate(of.fqrate)?).min();
        let streams = u32::try_from(of.parallel)
            .map_err(|_| Refusal::new(code::STREAMS, fault!("{} streams", of.parallel)))?;
        let tos = u8::try_from(of.tos)
            .map_err(|_| Refusal::new(code::TOS, fault!("a TOS of {}", of.tos)))?;
        let spec = TestSpec {
            protocol: if of.udp { Protocol::Udp } else { Protocol::Tcp },
            direction: match (of.reverse, of.bidirectional) {
                (true, _) => Direction::Reverse,
                (_, true) => Direction::BothWays,
                _ => Direction::Forward,
            },
            streams,
            amount,
            omit: seconds(of.omit, "an omitted time", code::OMIT)?,
            block: size(of.len, "a block", code::BLOCK)?,
            rate,
            window: size(of.window, "a window", code::WINDOW)?,
            mss,
            congestion: of.congestion.clone(),
            no_delay: of.nodelay,
            tos,
            counter: if of.udp_counters_64bit { Counter::Bits64 } else { Counter::Bits32 },
            interval: None,
            server_output: of.get_server_output,
            title: of.title.as_ref().map(|title| title.chars().take(TITLE_MAX).collect()),
        };
        spec.check()?;
        Ok(spec)
    }

    /// The parameters that a client tells the server. `block` is what it chose where none was asked for.
    pub(crate) fn to_parameters(&self, block: usize) -> Parameters {
        let seconds = |time: Nanos| whole(time.get().div_ceil(1_000_000_000));
        let (time, num, blockcount) = match self.amount {
            Amount::Time(time) => (seconds(time), 0, 0),
            Amount::Bytes(bytes) => (0, whole(bytes.get()), 0),
            Amount::Blocks(blocks) => (0, 0, whole(blocks)),
        };
        Parameters {
            tcp: self.protocol == Protocol::Tcp,
            udp: self.protocol == Protocol::Udp,
            omit: seconds(self.omit),
            time,
            num,
            blockcount,
            mss: self.mss.unwrap_or(0).into(),
            nodelay: self.no_delay,
            parallel: self.streams.into(),
            reverse: self.direction == Direction::Reverse,
            bidirectional: self.direction == Direction::BothWays,
            window: whole(self.window.map_or(0, Bytes::get)),
            len: whole(block as u64),
            bandwidth: whole(self.rate.map_or(0, |rate| rate.0)),
            pacing_timer: 1000,
            tos: self.tos.into(),
            title: self.title.clone(),
            congestion: self.congestion.clone(),
            get_server_output: self.server_output,
            udp_counters_64bit: self.counter == Counter::Bits64,
            client_version: Some(concat!("wirebeat ", env!("CARGO_PKG_VERSION")).to_owned()),
            ..Parameters::default()
        }
    }

    /// Whether such a test can be run at all.
    ///
    /// # Errors
    /// What is invalid, with iperf3's number for it.
    pub fn check(&self) -> Result<(), Refusal> {
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            let fault = fault!("{} streams", self.streams; "ask for 1 to {STREAMS_MAX}");
            return Err(Refusal::new(code::STREAMS, fault));
        }
        match self.amount {
            Amount::Time(time) if time > TIME_MAX => {
                let fault = fault!("a time of {time}"; "ask for at most {TIME_MAX}");
                return Err(Refusal::new(code::DURATION, fault));
            }
            _ => {}
        }
        if self.omit > OMIT_MAX {
            let fault = fault!("an omitted time of {}", self.omit; "ask for at most {OMIT_MAX}");
            return Err(Refusal::new(code::OMIT, fault));
        }
        let (blocks, number) = match self.protocol {
            Protocol::Tcp => (1..=BLOCK_MAX, code::BLOCK),
            Protocol::Udp => (DATAGRAM_MIN..=DATAGRAM_MAX, code::UDP_BLOCK),
        };
        if let Some(block) = self.block.filter(|block| !blocks.contains(&block.get())) {
            let fault =
                fault!("a block of {block}"; "ask for {} B to {} B", blocks.start(), blocks.end());
            return Err(Refusal::new(number, fault));
        }
        if let Some(window) = self.window.filter(|window| window.get() > WINDOW_MAX) {
            let fault =
                fault!("a window of {window}"; "ask for at most {}", Bytes::new(WINDOW_MAX));
            return Err(Refusal::new(code::WINDOW, fault));
        }
        // 88 is the kernel's smallest (TCP_MIN_MSS)
        if let Some(mss) = self.mss.filter(|mss| !(88..=MSS_MAX).contains(mss)) {
            let fault = fault!("segments of {mss} B"; "ask for 88 B to {MSS_MAX} B");
            return Err(Refusal::new(code::MSS, fault));
        }
        let names = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_name =
            |name: &&String| (1..=CONGESTION_MAX).contains(&name.len()) && name.chars().all(names);
        if let Some(name) = self.congestion.as_ref().filter(|name| !is_name(name)) {
            let name = wirebeat_units::printable::printable(name);
            let fault = fault!("'{name}' is not the name of a congestion control");
            return Err(Refusal::new(code::CONGESTION, fault));
        }
        Ok(())
    }

    /// Whether iperf3's wire can say it.
    pub(crate) fn check_iperf3(&self) -> Result<(), Refusal> {
        self.check()?;
        if self.direction == Direction::InTurn {
            let fault = fault!("iperf3 cannot send first one way, then the other"; "ask for both ways at once");
            return Err(Refusal::new(code::UNIMPLEMENTED, fault));
        }
        Ok(())
    }

    /// Whether iperf 2's wire can say it.
    pub(crate) fn check_iperf2(&self) -> Result<(), Refusal> {
        self.check()?;
        let refuse = |fault| Err(Refusal::new(code::UNIMPLEMENTED, fault));
        if self.protocol == Protocol::Udp {
            return refuse(fault!("only TCP is spoken with iperf 2 here"));
        }
        if self.direction == Direction::Reverse {
            return refuse(
                fault!("iperf 2 cannot be asked to send alone"; "ask for both ways, or in turn"),
            );
        }
        if self.omit > Nanos::ZERO || self.server_output {
            return refuse(fault!("iperf 2's wire has no omitted time and no server's output"));
        }
        Ok(())
    }

    /// Bytes of a block; `segment` is what the control connection's segments hold.
    pub(crate) fn block_len(&self, segment: usize) -> usize {
        let default = match self.protocol {
            Protocol::Tcp => TCP_BLOCK as usize,
            Protocol::Udp => segment.clamp(DATAGRAM_MIN as usize, DATAGRAM_MAX as usize),
        };
        self.block.map_or(default, |block| block.get() as usize)
    }

    /// Bytes after which one direction has enough, with blocks of this size; `None` where only time ends it.
    pub(crate) fn bytes(&self, block: usize) -> Option<u64> {
        match self.amount {
            Amount::Time(_) => None,
            Amount::Bytes(bytes) => Some(bytes.get()),
            Amount::Blocks(blocks) => Some(blocks.saturating_mul(block as u64)),
        }
    }

    /// The time that counts; `None` where it is not time that ends it.
    pub(crate) fn time(&self) -> Option<Nanos> {
        match self.amount {
            Amount::Time(time) => Some(time).filter(|time| *time > Nanos::ZERO),
            Amount::Bytes(_) | Amount::Blocks(_) => None,
        }
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
