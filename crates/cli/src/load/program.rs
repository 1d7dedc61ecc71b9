//! What sessions say, by flags: each program has its own, and one of another program is refused.

use std::num::{NonZeroU16, NonZeroU32};

use clap::Args;
use clap::builder::TypedValueParser;
use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::program::dns::{DnsType, Rcode};
use wirebeat_traffic::scenario::session::program::{
    Bulk, Direction, Dns, Echo, Exchange, Http, HttpBody, Messages, Method,
};
use wirebeat_traffic::scenario::session::{DataSize, ProgramSpec};
use wirebeat_units::{Bytes, Fault, Nanos, fault};

use crate::failure::Failure;
use crate::values;

/// What both ends of a session say, as a command line can name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Http,
    RequestResponse,
    Bulk,
    Echo,
    Messages,
    Dns,
}

use Program::{
    Bulk as BULK, Dns as DNS, Echo as ECHO, Http as HTTP, Messages as MESSAGES,
    RequestResponse as EXCHANGE,
};

const PROGRAMS: [(&str, &str, Program); 7] = [
    ("http", "HTTP/1.1: the client requests, the server responds", HTTP),
    (
        "request-response",
        "Requests and responses of given sizes, and nothing around them",
        EXCHANGE,
    ),
    ("bulk", "As much data as goes through, one way or both", BULK),
    ("discard", "The same as bulk: what RFC 863 calls the service that takes all data", BULK),
    ("echo", "Messages that the server sends back: the round trip of each is measured", ECHO),
    ("messages", "Messages one way: the delay of each is measured where it arrives", MESSAGES),
    ("dns", "Queries for a name, over UDP or TCP", DNS),
];

const METHODS: [(&str, &str, Method); 6] = [
    ("GET", "The content", Method::Get),
    ("HEAD", "The head of the response alone", Method::Head),
    ("POST", "With content: --body", Method::Post),
    ("PUT", "With content: --body", Method::Put),
    ("DELETE", "Takes it away", Method::Delete),
    ("OPTIONS", "What the server offers", Method::Options),
];

const FRAMINGS: [(&str, &str, HttpBody); 3] = [
    ("length", "By its length in the head", HttpBody::Length),
    ("chunked", "In chunks of 4096 bytes", HttpBody::Chunked),
    ("close", "By the end of the connection", HttpBody::Close),
];

/// Reads a program.
pub fn program() -> impl TypedValueParser<Value = Program> {
    values::choice(&PROGRAMS)
}

impl Program {
    /// Its name in the language and in reports.
    pub fn name(self) -> &'static str {
        PROGRAMS.iter().find(|(_, _, program)| *program == self).map_or("", |(name, ..)| name)
    }
}

/// A flag, whether it was given, and the programs that have it.
pub type Given<'a> = (&'a str, bool, &'a [Program]);

/// Refuses flags of other programs.
pub fn refuse_others(program: Program, flags: &[Given<'_>]) -> Result<(), Failure> {
    let other = flags.iter().find(|(_, given, of)| *given && !of.contains(&program));
    let Some((flag, _, of)) = other else { return Ok(()) };
    let names: Vec<&str> = of.iter().map(|program| program.name()).collect();
    Err(Failure::usage(fault!(
        "the program '{}' has no such flag", program.name();
        "leave it out: it is one of {}", names.join(" and ")
    ))
    .at(*flag))
}

/// What clients say.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Program")]
pub struct ClientArgs {
    /// What both ends say [default: http with a URL]
    #[arg(long, value_name = "PROGRAM", value_parser = program())]
    pub program: Option<Program>,
    /// How many requests a session has; with echo and messages, messages [default: 1; of messages as many as there is time for]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    requests: Option<NonZeroU32>,
    /// http, request-response: how long the client waits from a response to its next request [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    request_think: Option<Duration>,
    /// http: how many requests may wait for their responses [default: 1]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU16>)]
    pipeline: Option<NonZeroU16>,
    /// http: the last request of a session asks the server to close, so that no port of the clients stays in TIME-WAIT
    #[arg(long)]
    server_closes: bool,
    /// http: the method [default: GET]
    #[arg(long, value_name = "METHOD", value_parser = values::choice(&METHODS), hide_possible_values = true)]
    method: Option<Method>,
    /// http: a header of requests, given once for each: 'Name: value'
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<Header>,
    /// http: how many bytes of content a request carries [default: none]
    #[arg(long, value_name = "BYTES")]
    body: Option<Bytes>,
    /// http: the status that responses are to have; others are counted as unexpected [default: any below 400]
    #[arg(long, value_name = "STATUS", value_parser = values::count::<NonZeroU16>)]
    expect_status: Option<NonZeroU16>,
    /// http: how many bytes of content responses are to have; others are counted as unexpected [default: any]
    #[arg(long, value_name = "BYTES")]
    expect_size: Option<Bytes>,
    /// request-response: how many bytes a request has [default: 100B]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    request_size: Option<DataSize>,
    /// request-response: how many bytes a response has; the server has to be given the same [default: 1kB]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    response_size: Option<DataSize>,
    /// echo, messages: how many bytes a message has [default: 64B]; http with --peer: those of content of a response [default: 1kB]; with --iperf3 and --iperf2 those of a write or a datagram; with --ditg those of a packet [default there: 512B]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    size: Option<DataSize>,
    /// echo, messages: how long it is from one planned message to the next [default: with echo each when the one before is back, else 10ms]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    gap: Option<Duration>,
    /// dns: the type of records that is asked for: A, AAAA, TXT, MX, NS, PTR, SRV or ANY [default: A]
    #[arg(long = "type", value_name = "TYPE")]
    query_type: Option<DnsType>,
    /// dns: the server is not asked to ask others
    #[arg(long)]
    no_recursion: bool,
    /// dns: the response code that responses are to have; others are counted as unexpected [default: noerror]
    #[arg(long, value_name = "CODE")]
    expect_rcode: Option<Rcode>,
    /// bulk: how many sessions run at once [default: 1]; of iperf3 and iperf 2 in each direction; with --ditg flows
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    pub streams: Option<NonZeroU32>,
    #[command(flatten)]
    bulk: BulkArgs,
}

impl ClientArgs {
    /// Bytes of a write or a datagram of another tool's wire.
    ///
    /// # Errors
    /// A size that varies.
    pub fn block(&self) -> Result<Option<Bytes>, Failure> {
        match &self.size {
            None => Ok(None),
            Some(DataSize::Fixed(bytes)) => Ok(Some(*bytes)),
            Some(DataSize::Drawn(_)) => {
                let why = fault!("all blocks of a test have one size"; "give a number of bytes, for example 1400B");
                Err(Failure::usage(why).at("--size"))
            }
        }
    }

    /// Which way bulk data goes, and how much.
    pub fn bulk(&self) -> &BulkArgs {
        &self.bulk
    }
}

/// Which way bulk data goes, and how much.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct BulkArgs {
    /// bulk, messages: data goes from the server to the client; both ends have to be told
    #[arg(long)]
    pub reverse: bool,
    /// bulk, messages: data goes both ways at a time; both ends have to be told
    #[arg(long, conflicts_with = "reverse")]
    pub both_ways: bool,
    /// bulk: how many bytes go each way that data goes [default: as many as go through in the time]
    #[arg(long, value_name = "BYTES")]
    pub bytes: Option<Bytes>,
}

impl BulkArgs {
    fn given(&self) -> [Given<'static>; 3] {
        [
            ("--reverse", self.reverse, &[BULK, MESSAGES]),
            ("--both-ways", self.both_ways, &[BULK, MESSAGES]),
            ("--bytes", self.bytes.is_some(), &[BULK]),
        ]
    }

    fn direction(&self) -> Direction {
        match (self.reverse, self.both_ways) {
            (true, _) => Direction::Reverse,
            (_, true) => Direction::Both,
            _ => Direction::Forward,
        }
    }

    fn spec(&self) -> Bulk {
        Bulk { bytes: self.bytes, direction: self.direction() }
    }
}

impl ClientArgs {
    /// Whether data goes until the time is over.
    pub fn is_endless(&self, program: Program) -> bool {
        match program {
            BULK => self.bulk.bytes.is_none(),
            MESSAGES => self.requests.is_none(),
            _ => false,
        }
    }

    /// The program, of which HTTP requests `path` of `host`, and DNS the name `path`; `serves`: the server is told what to say.
    pub fn spec(
        &self,
        (program, serves): (Program, bool),
        path: &str,
        host: Option<String>,
    ) -> Result<ProgramSpec, Failure> {
        // a server of somebody else decides by itself how long its responses are
        let sized: &[Program] = if serves { &[ECHO, MESSAGES, HTTP] } else { &[ECHO, MESSAGES] };
        let mut flags: Vec<Given<'_>> = vec![
            ("--requests", self.requests.is_some(), &[HTTP, EXCHANGE, ECHO, MESSAGES, DNS]),
            ("--request-think", self.request_think.is_some(), &[HTTP, EXCHANGE, DNS]),
            ("--type", self.query_type.is_some(), &[DNS]),
            ("--no-recursion", self.no_recursion, &[DNS]),
            ("--expect-rcode", self.expect_rcode.is_some(), &[DNS]),
            ("--pipeline", self.pipeline.is_some(), &[HTTP]),
            ("--server-closes", self.server_closes, &[HTTP]),
            ("--method", self.method.is_some(), &[HTTP]),
            ("--header", !self.header.is_empty(), &[HTTP]),
            ("--body", self.body.is_some(), &[HTTP]),
            ("--expect-status", self.expect_status.is_some(), &[HTTP]),
            ("--expect-size", self.expect_size.is_some(), &[HTTP]),
            ("--request-size", self.request_size.is_some(), &[EXCHANGE]),
            ("--response-size", self.response_size.is_some(), &[EXCHANGE]),
            ("--size", self.size.is_some(), sized),
            ("--gap", self.gap.is_some(), &[ECHO, MESSAGES]),
            ("--streams", self.streams.is_some(), &[BULK]),
        ];
        flags.extend(self.bulk.given());
        refuse_others(program, &flags)?;
        Ok(match program {
            HTTP => ProgramSpec::Http(Box::new(self.http(path, host)?)),
            EXCHANGE => {
                let usual = Exchange::default();
                ProgramSpec::RequestResponse(Box::new(Exchange {
                    request: self.request_size.clone().unwrap_or(usual.request),
                    response: self.response_size.clone().unwrap_or(usual.response),
                    requests: self.requests.unwrap_or(usual.requests),
                    think: self.request_think.clone(),
                    ..usual
                }))
            }
            BULK => ProgramSpec::Bulk(Box::new(self.bulk.spec())),
            DNS => {
                let usual = Dns::default();
                ProgramSpec::Dns(Box::new(Dns {
                    name: if path.is_empty() { usual.name } else { path.to_owned() },
                    kind: self.query_type.unwrap_or_default(),
                    recursion_desired: !self.no_recursion,
                    requests: self.requests.unwrap_or(usual.requests),
                    think: self.request_think.clone(),
                    expect_rcode: self.expect_rcode,
                    ..usual
                }))
            }
            MESSAGES => {
                let usual = Messages::default();
                ProgramSpec::Messages(Box::new(Messages {
                    size: self.size.clone().unwrap_or(usual.size),
                    gap: self.gap.clone().unwrap_or(usual.gap),
                    messages: self.requests,
                    direction: self.bulk.direction(),
                    ..usual
                }))
            }
            ECHO => {
                let usual = Echo::default();
                ProgramSpec::Echo(Box::new(Echo {
                    size: self.size.clone().unwrap_or(usual.size),
                    messages: self.requests.unwrap_or(usual.messages),
                    gap: self.gap.clone(),
                }))
            }
        })
    }

    fn http(&self, path: &str, host: Option<String>) -> Result<Http, Failure> {
        let usual = Http::default();
        let mut http = Http {
            target: if path.is_empty() { usual.target } else { path.to_owned() },
            host,
            method: self.method.unwrap_or_default(),
            body: self.body,
            requests: self.requests.unwrap_or(usual.requests),
            pipeline: self.pipeline.unwrap_or(usual.pipeline),
            server_closes: self.server_closes,
            think: self.request_think.clone(),
            expect_status: self.expect_status,
            expect_size: self.expect_size,
            size: self.size.clone().unwrap_or(usual.size),
            ..usual
        };
        for Header { name, value } in &self.header {
            // HTTP needs it once: another one than that of the URL
            let twice = match name.eq_ignore_ascii_case("host") {
                true => {
                    http.host = Some(value.clone());
                    false
                }
                false => http.headers.insert(name.clone(), value.clone()).is_some(),
            };
            if twice {
                return Err(given_twice(name));
            }
        }
        Ok(http)
    }
}

/// What servers say.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Program")]
pub struct ServerArgs {
    /// http: how many bytes of content a response has [default: 1kB]; messages: how many bytes one has [default: 64B]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    size: Option<DataSize>,
    /// messages: with --reverse and --both-ways, how long it is from one planned message to the next [default: 10ms]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    gap: Option<Duration>,
    /// http: the file whose bytes are the content of responses, at most 64 MiB [default: generated data]
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<String>,
    /// http: the status of responses [default: 200]
    #[arg(long, value_name = "STATUS", value_parser = values::count::<NonZeroU16>)]
    status: Option<NonZeroU16>,
    /// http: how a response says where its content ends [default: length]
    #[arg(long, value_name = "HOW", value_parser = values::choice(&FRAMINGS))]
    framing: Option<HttpBody>,
    /// http: a header of responses, given once for each: 'Name: value'
    #[arg(long, value_name = "HEADER", value_parser = header)]
    header: Vec<Header>,
    /// dns: an address that is the answer for every name, given once for each; without any there are no records
    #[arg(long, value_name = "ADDRESS")]
    answer: Vec<std::net::IpAddr>,
    /// dns: how long addresses hold [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    answer_ttl: Option<Nanos>,
    /// dns: the response code: noerror, nxdomain, servfail, refused … [default: noerror]
    #[arg(long, value_name = "CODE")]
    rcode: Option<Rcode>,
    /// request-response: how many requests a session has; messages: how many the server sends; the clients have to be given the
    /// same [default: 1; of messages as many as there is time for]
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroU32>)]
    requests: Option<NonZeroU32>,
    /// request-response: how many bytes a request has; the clients have to be given the same [default: 100B]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    request_size: Option<DataSize>,
    /// request-response: how many bytes a response has [default: 1kB]
    #[arg(long, value_name = "SIZE", value_parser = values::data_size)]
    response_size: Option<DataSize>,
    #[command(flatten)]
    bulk: BulkArgs,
}

impl ServerArgs {
    /// The program.
    pub fn spec(&self, program: Program) -> Result<ProgramSpec, Failure> {
        let mut flags: Vec<Given<'_>> = vec![
            ("--size", self.size.is_some(), &[HTTP, MESSAGES]),
            ("--gap", self.gap.is_some(), &[MESSAGES]),
            ("--file", self.file.is_some(), &[HTTP]),
            ("--status", self.status.is_some(), &[HTTP]),
            ("--answer", !self.answer.is_empty(), &[DNS]),
            ("--answer-ttl", self.answer_ttl.is_some(), &[DNS]),
            ("--rcode", self.rcode.is_some(), &[DNS]),
            ("--framing", self.framing.is_some(), &[HTTP]),
            ("--header", !self.header.is_empty(), &[HTTP]),
            ("--requests", self.requests.is_some(), &[EXCHANGE, MESSAGES]),
            ("--request-size", self.request_size.is_some(), &[EXCHANGE]),
            ("--response-size", self.response_size.is_some(), &[EXCHANGE]),
        ];
        flags.extend(self.bulk.given());
        refuse_others(program, &flags)?;
        Ok(match program {
            HTTP => {
                let usual = Http::default();
                let mut http = Http {
                    size: self.size.clone().unwrap_or(usual.size),
                    file: self.file.clone(),
                    status: self.status,
                    framing: self.framing.unwrap_or_default(),
                    ..usual
                };
                for Header { name, value } in &self.header {
                    if http.response_headers.insert(name.clone(), value.clone()).is_some() {
                        return Err(given_twice(name));
                    }
                }
                ProgramSpec::Http(Box::new(http))
            }
            EXCHANGE => {
                let usual = Exchange::default();
                ProgramSpec::RequestResponse(Box::new(Exchange {
                    request: self.request_size.clone().unwrap_or(usual.request),
                    response: self.response_size.clone().unwrap_or(usual.response),
                    requests: self.requests.unwrap_or(usual.requests),
                    ..usual
                }))
            }
            BULK => ProgramSpec::Bulk(Box::new(self.bulk.spec())),
            ECHO => ProgramSpec::Echo(Box::default()),
            MESSAGES => {
                let usual = Messages::default();
                ProgramSpec::Messages(Box::new(Messages {
                    size: self.size.clone().unwrap_or(usual.size),
                    gap: self.gap.clone().unwrap_or(usual.gap),
                    messages: self.requests,
                    direction: self.bulk.direction(),
                    ..usual
                }))
            }
            DNS => {
                let usual = Dns::default();
                ProgramSpec::Dns(Box::new(Dns {
                    answers: self.answer.clone(),
                    ttl: self.answer_ttl.unwrap_or(usual.ttl),
                    rcode: self.rcode.unwrap_or_default(),
                    ..usual
                }))
            }
        })
    }
}

/// A header of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    name: String,
    value: String,
}

fn header(text: &str) -> Result<Header, Fault> {
    let (name, value) = text.split_once(':').ok_or_else(
        || fault!("'{text}' is not a header"; "write for example 'Accept: text/html'"),
    )?;
    Ok(Header { name: name.trim().to_owned(), value: value.trim().to_owned() })
}

fn given_twice(name: &str) -> Failure {
    Failure::usage(fault!("the header '{name}' is given twice"; "give it once"))
        .at(format!("--header '{name}: …'"))
}
