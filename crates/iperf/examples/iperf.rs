//! Serves and loads by hand, as `wirebeat serve --iperf3` and `wirebeat load --iperf3` will.
//!
//! ```sh
//! cargo run -p wirebeat-iperf --example iperf -- serve 0.0.0.0:5201 [--one-off] [--json] [--iperf2 [--connect-back]]
//! cargo run -p wirebeat-iperf --example iperf -- load 127.0.0.1:5201 [--udp] [--reverse | --both-ways] [--streams N] [--time 10s]
//!     [--bytes 1GB] [--rate 100Mbps] [--block 1000] [--omit 1s] [--congestion cubic] [--mss 1000] [--window 1MB] [--server-output]
//!     [--iperf2 [--in-turn] [--back-port 5002]]
//! ```

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::process::ExitCode;

use wirebeat_iperf::result::PeerOutput;
use wirebeat_iperf::{
    Amount, Direction, Event, Iperf2Server, OutputForm, Protocol, Server, ServerOptions, Stop,
    TestResult, TestSpec, client,
};
use wirebeat_units::{Fault, fault, human, printable};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.split_first() {
        Some((command, rest)) if command == "serve" => serve(rest),
        Some((command, rest)) if command == "load" => load(rest),
        _ => Err(fault!("say what to do"; "serve ADDRESS:PORT, or load ADDRESS:PORT")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

fn invalid(what: &str) -> impl FnOnce(String) -> Fault {
    move |why| fault!("{what}: {why}")
}

fn read<T: std::str::FromStr>(what: &str, text: Option<&String>) -> Result<T, Fault>
where
    T::Err: std::fmt::Display,
{
    let text = text.ok_or_else(|| fault!("{what} is missing"))?;
    text.parse().map_err(|error: T::Err| invalid(what)(error.to_string()))
}

fn serve(arguments: &[String]) -> Result<(), Fault> {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let options = ServerOptions {
        one_off: has("--one-off"),
        connect_back: has("--connect-back"),
        output: if has("--json") { OutputForm::Json } else { OutputForm::Text },
        ..ServerOptions::default()
    };
    let address = read("address", arguments.first())?;
    let mut print = |event: Event<'_>| match event {
        Event::Ended(Ok(result)) => print_result(result),
        Event::Ended(Err(error)) => println!("failed: {error}"),
        other => print_event(&other),
    };
    if has("--iperf2") {
        let mut server = Iperf2Server::bind(address, options)?;
        println!("listening on {}", server.address());
        server.run(&Stop::new(), &mut print)?;
    } else {
        let mut server = Server::bind(address, options)?;
        println!("listening on {}", server.address());
        server.run(&Stop::new(), &mut print)?;
    }
    Ok(())
}

fn load(arguments: &[String]) -> Result<(), Fault> {
    let mut spec = TestSpec::default();
    let address = read("address", arguments.first())?;
    let (mut iperf2, mut back_port) = (false, 0);
    let mut rest = arguments.iter().skip(1);
    while let Some(flag) = rest.next() {
        match flag.as_str() {
            "--udp" => spec.protocol = Protocol::Udp,
            "--reverse" => spec.direction = Direction::Reverse,
            "--both-ways" => spec.direction = Direction::BothWays,
            "--iperf2" => iperf2 = true,
            "--in-turn" => spec.direction = Direction::InTurn,
            "--back-port" => back_port = read(flag, rest.next())?,
            "--server-output" => spec.server_output = true,
            "--streams" => spec.streams = read(flag, rest.next())?,
            "--time" => spec.amount = Amount::Time(read(flag, rest.next())?),
            "--bytes" => spec.amount = Amount::Bytes(read(flag, rest.next())?),
            "--blocks" => spec.amount = Amount::Blocks(read(flag, rest.next())?),
            "--rate" => spec.rate = Some(read(flag, rest.next())?),
            "--block" => spec.block = Some(read(flag, rest.next())?),
            "--omit" => spec.omit = read(flag, rest.next())?,
            "--window" => spec.window = Some(read(flag, rest.next())?),
            "--mss" => spec.mss = Some(read(flag, rest.next())?),
            "--congestion" => spec.congestion = Some(read(flag, rest.next())?),
            "--interval" => spec.interval = Some(read(flag, rest.next())?),
            other => return Err(fault!("unknown flag '{other}'")),
        }
    }
    let target = client::Target { back_port, ..client::Target::new(address) };
    let (stop, mut print) = (Stop::new(), |event: Event<'_>| print_event(&event));
    let result = if iperf2 {
        client::run_iperf2(&target, &spec, &stop, &mut print)?
    } else {
        client::run(&target, &spec, &stop, &mut print)?
    };
    print_result(&result);
    match &result.server_output {
        Some(PeerOutput::Text(text) | PeerOutput::Json(text)) => {
            println!("server output:\n{}", printable::printable_lines(text));
        }
        None => {}
    }
    Ok(())
}

fn print_event(event: &Event<'_>) {
    match event {
        Event::Started(started) => {
            println!("test with {}, blocks of {} B", started.peer, started.block)
        }
        Event::Interval(interval) => {
            let (sent, received) = interval.bytes();
            let seconds = interval.end.saturating_sub(interval.start).as_secs_f64();
            let rate = |bytes: u64| human::bit_rate(bytes as f64 * 8.0 / seconds);
            let retransmits: u64 = interval.streams.iter().filter_map(|s| s.side.retransmits).sum();
            println!(
                "{:6.2} s  sent {}  received {}  {retransmits} retransmitted{}",
                interval.end.as_secs_f64(),
                rate(sent.get()),
                rate(received.get()),
                if interval.omitted { "  (omitted)" } else { "" },
            );
        }
        Event::Denied(peer) => println!("denied {peer}"),
        Event::Ended(_) => {}
    }
}

fn print_result(result: &TestResult) {
    println!("{:?} after {}", result.end, human::time(result.time.get() as f64));
    for stream in &result.streams {
        let rate = |side: wirebeat_iperf::result::Side| {
            let rate = side.rate().map_or(0.0, |rate| rate.0 as f64);
            format!(
                "{} B {} {:?} {:?}",
                side.bytes.get(),
                human::bit_rate(rate),
                side.retransmits,
                side.datagrams
            )
        };
        println!(
            "[{}] {} {}: ours {}; theirs {}",
            stream.id,
            if stream.sending { "to" } else { "from" },
            stream.remote,
            rate(stream.ours),
            stream.theirs.map_or("-".to_owned(), rate),
        );
    }
    println!(
        "CPU ours {:.1} %, theirs {:?}; congestion ours {:?}, theirs {:?}; inconsistent: {:?}",
        result.our_cpu.total,
        result.their_cpu.map(|cpu| cpu.total),
        result.our_congestion,
        result.their_congestion,
        result.inconsistencies(),
    );
}
