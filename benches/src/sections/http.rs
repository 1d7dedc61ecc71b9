//! HTTP over the cable: Wirebeat's clients and servers beside wrk and nginx, over connections that are kept and over one for each request.

use std::net::Ipv4Addr;

use super::Chapter;
use crate::format::{self, NOTHING};
use crate::lab::Failure;
use crate::rounds::{Bench, Contestant, Measured, in_turn};
use crate::sessions::{Group, Path, Tcp};
use crate::stats::Ratio;
use crate::table::Table;
use crate::verdict::Verdict;
use crate::web::{self, Nginx};

const PROSE: &str = "\
50 clients, or 500, over the cable, clients on one core and servers on the other, responses of 1000 bytes. Connections are kept for as many \
requests as there is time for, or each has one request and is closed by the server (`Connection: close`). wrk runs with one thread; \
nginx is one process that writes no log and answers out of its memory. Each client counts its own responses; one that had a response \
that failed, or a session that did, is no measurement. Where both ends are Wirebeat's, they also compare every byte.";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Client {
    Wrk,
    Ours(Tcp),
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Nginx,
    Ours(Tcp),
}

/// Who asks, who answers, and how many clients there are.
type Case = (Client, Server, u32);

/// Those who are measured; wrk and nginx are what others with as many clients are held against.
const CASES: [Case; 11] = [
    (Client::Wrk, Server::Nginx, 50),
    (Client::Ours(Tcp::Host), Server::Nginx, 50),
    (Client::Wrk, Server::Ours(Tcp::Host), 50),
    (Client::Ours(Tcp::Host), Server::Ours(Tcp::Host), 50),
    (Client::Ours(Tcp::Packet), Server::Nginx, 50),
    (Client::Wrk, Server::Ours(Tcp::Packet), 50),
    (Client::Ours(Tcp::Packet), Server::Ours(Tcp::Packet), 50),
    (Client::Ours(Tcp::Kernel), Server::Ours(Tcp::Kernel), 50),
    (Client::Wrk, Server::Nginx, 500),
    (Client::Ours(Tcp::Packet), Server::Ours(Tcp::Packet), 500),
    (Client::Ours(Tcp::Kernel), Server::Ours(Tcp::Kernel), 500),
];

/// What is to be reached: its words, which case, whether connections are closed, and how many times the first case's rate.
const TARGETS: [(&str, Case, bool, f64); 2] = [
    (
        "stack: host, requests/s over kept connections ≥ those of wrk, from the same nginx",
        (Client::Ours(Tcp::Host), Server::Nginx, 50),
        false,
        1.0,
    ),
    (
        "stack: own at both ends, new connections/s with a request each ≥ 10 × those of nginx and wrk",
        (Client::Ours(Tcp::Kernel), Server::Ours(Tcp::Kernel), 500),
        true,
        10.0,
    ),
];

/// Whether connections are closed: the columns.
const MODES: [bool; 2] = [false, true];

/// Measures it.
pub fn measure(bench: &mut Bench) -> Chapter {
    let mut contestants = Vec::new();
    for case in CASES {
        for closes in MODES {
            let how = if closes { "closed" } else { "kept" };
            let name = format!("http {how}: {}", name(case));
            contestants
                .push(Contestant::new(name, move |bench: &Bench| responses(bench, case, closes)));
        }
    }
    let measured = in_turn(bench, &contestants, |rate| format!("{}/s", format::rate(*rate)));
    let mut table = Table::new(&[
        "clients: client → server",
        "requests/s, connections kept",
        "of wrk → nginx",
        "connections/s, one request each",
        "of wrk → nginx",
        "remark",
    ]);
    for (number, case) in CASES.into_iter().enumerate() {
        let mut row = vec![name(case)];
        let mut remarks = Vec::new();
        for closes in MODES {
            let Some(one) = measured.get(place(number, closes)) else { continue };
            row.push(format::series(&one.series(|rate| *rate), format::rate));
            row.push(
                ratio(&measured, number, closes).map_or(NOTHING.into(), |r| format::ratio(&r)),
            );
            remarks.push(one.remark());
        }
        remarks.retain(|remark| !remark.is_empty());
        row.push(remarks.join("; "));
        table.row(row);
    }
    let verdict = |(target, case, closes, least): (&str, Case, bool, f64)| {
        let number = CASES.iter().position(|one| *one == case);
        match number.and_then(|number| ratio(&measured, number, closes)) {
            Some(ratio) => Verdict::of(target, format::ratio(&ratio), ratio.median >= least),
            None => {
                let one = number.and_then(|number| measured.get(place(number, closes)));
                Verdict::unmeasured(target, one.map(Measured::reason).unwrap_or_default())
            }
        }
    };
    Chapter {
        title: "HTTP",
        prose: PROSE,
        tables: vec![("Medians of the rounds, and their range:".to_owned(), table)],
        picture: None,
        verdicts: TARGETS.into_iter().map(verdict).collect(),
    }
}

fn place(number: usize, closes: bool) -> usize {
    number * MODES.len() + usize::from(closes)
}

/// What a case has of wrk and nginx with as many clients.
fn ratio(measured: &[Measured<f64>], number: usize, closes: bool) -> Option<Ratio> {
    let (_, _, clients) = *CASES.get(number)?;
    let beside = CASES.iter().position(|one| *one == (Client::Wrk, Server::Nginx, clients))?;
    let series = |number| Some(measured.get(place(number, closes))?.series(|rate| *rate));
    series(number)?.over(&series(beside)?)
}

fn name((client, server, clients): Case) -> String {
    let client = match client {
        Client::Wrk => "wrk",
        Client::Ours(tcp) => tcp.name(),
    };
    let server = match server {
        Server::Nginx => "nginx",
        Server::Ours(tcp) => tcp.name(),
    };
    format!("{clients}: {client} → {server}")
}

/// Responses in a second.
fn responses(bench: &Bench, (client, server, clients): Case, closes: bool) -> Result<f64, Failure> {
    let Bench { lab, time, .. } = bench;
    let keys = match closes {
        true => "program: { http: { server-closes: true } }",
        false => "program: { http: { requests: 1000000000 } }",
    };
    // our servers answer whatever is asked of them
    let served = match client {
        Client::Wrk => "program: http",
        Client::Ours(_) => keys,
    };
    let tcp = |server| match server {
        Server::Nginx => None,
        Server::Ours(tcp) => Some(tcp),
    };
    let ours = match client {
        Client::Wrk => None,
        Client::Ours(tcp) => Some(tcp),
    };
    let group = Group {
        client: ours,
        server: tcp(server),
        path: Path::Cable,
        port: web::PORT,
        keys: served,
        starts: &format!("users: {clients}"),
        run: "",
    };
    let _nginx = match server {
        Server::Nginx => Some(Nginx::start(lab)?),
        Server::Ours(_) => None,
    };
    let wrk = |at: Ipv4Addr| web::wrk(lab, at, clients, (*time, closes));
    match (client, server) {
        (Client::Wrk, Server::Nginx) => wrk(lab.far().ipv4),
        (Client::Wrk, Server::Ours(_)) => group.beside(lab, || wrk(group.server_address(lab))),
        (Client::Ours(_), _) => Ok(group.count(lab, *time)?.responses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_of_a_case() {
        for (target, case, ..) in TARGETS {
            assert!(CASES.contains(&case), "{target}");
        }
        for (_, _, clients) in CASES {
            assert!(CASES.contains(&(Client::Wrk, Server::Nginx, clients)), "{clients}: the limit");
        }
    }
}
