//! The peers of HTTP: nginx as the server, wrk as the client, each on one CPU.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wirebeat_testbed::{Capability, Process, Program, require};

use crate::lab::{Failure, Lab};

/// Where servers of HTTP listen.
pub const PORT: u16 = 80;
/// Bytes of content of a response.
pub const CONTENT: usize = 1000;
/// Until nginx listens.
const STARTS: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
/// Longer than wrk takes beside the time that it is given.
const AROUND: Duration = Duration::from_secs(10);

/// nginx at the far end of the cable; killed when dropped.
#[derive(Debug)]
pub struct Nginx {
    _process: Process,
}

/// Its configuration: one process that keeps connections for as long as they are used, writes no log, and answers out of its memory.
pub fn configuration(folder: &str) -> String {
    let content = "x".repeat(CONTENT);
    format!(
        "daemon off; master_process off; error_log {folder}/nginx-error.log; pid {folder}/nginx.pid;\n\
         events {{ worker_connections 8192; multi_accept on; }}\n\
         http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {folder};\n\
         server {{ listen {PORT} backlog=4096; location / {{ return 200 '{content}'; }} }} }}\n"
    )
}

impl Nginx {
    /// Starts it, and waits until it listens.
    pub fn start(lab: &Lab) -> Result<Nginx, Failure> {
        require(Capability::Program("nginx"))?;
        let file = lab.folder.file("nginx.conf");
        let folder = lab.folder.file("");
        fs::write(&file, configuration(&folder.to_string_lossy()))?;
        let words = ["-c", &lab.cores.other.to_string(), "nginx", "-p"].map(str::to_owned);
        let words = words.into_iter().chain([
            folder.to_string_lossy().into_owned(),
            "-c".to_owned(),
            file.to_string_lossy().into_owned(),
        ]);
        let process = Program::new(&lab.far().namespace, "taskset").args(words).spawn()?;
        let (at, until) = ((lab.far().ipv4, PORT), Instant::now() + STARTS);
        while lab.far().namespace.run(|| TcpStream::connect(at))?.is_err() {
            if Instant::now() > until {
                let said = process.wait(Duration::ZERO).map(|output| output.stderr);
                return Err(format!("nginx does not listen: {}", said.unwrap_or_default()).into());
            }
            sleep(STEP);
        }
        Ok(Nginx { _process: process })
    }
}

/// The words of wrk, without those that bind it to a CPU.
pub fn wrk_words(server: Ipv4Addr, clients: u32, (time, closes): (Duration, bool)) -> Vec<String> {
    // it takes whole seconds alone
    let seconds = time.as_secs_f64().ceil().max(1.0);
    let mut words =
        vec!["wrk".to_owned(), "-t1".into(), format!("-c{clients}"), format!("-d{seconds}s")];
    if closes {
        words.extend(["-H".to_owned(), "Connection: close".to_owned()]);
    }
    words.push(format!("http://{server}:{PORT}/"));
    words
}

/// Responses in a second that wrk counts, from a server at the far end of the cable.
pub fn wrk(
    lab: &Lab,
    server: Ipv4Addr,
    clients: u32,
    (time, closes): (Duration, bool),
) -> Result<f64, Failure> {
    require(Capability::Program("wrk"))?;
    let words = ["-c".to_owned(), lab.cores.send.to_string()];
    let words = words.into_iter().chain(wrk_words(server, clients, (time, closes)));
    let program = Program::new(&lab.near().namespace, "taskset").args(words);
    let output = program.output(time + AROUND)?;
    responses(&output.stdout).map_err(|why| {
        let said: Vec<&str> = output.stderr.lines().chain(output.stdout.lines()).collect();
        format!("{why}: {}", said.join(" / ")).into()
    })
}

/// The figure of its line "Requests/sec", unless some requests failed.
fn responses(said: &str) -> Result<f64, &'static str> {
    if said.lines().any(|line| line.trim_start().starts_with("Non-2xx")) {
        return Err("wrk had other responses than were asked for");
    }
    if said.lines().any(|line| line.trim_start().starts_with("Socket errors")) {
        return Err("wrk had errors");
    }
    let rate = said.lines().find_map(|line| line.trim_start().strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok()).ok_or("wrk said no rate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_counts_when_no_request_failed() {
        let said = "Running 1s test @ http://10.77.0.2:80/\n  1 threads and 50 connections\n\
                    Requests/sec:  12345.50\nTransfer/sec:     13.52MB\n";
        assert_eq!(responses(said), Ok(12345.5));
        for wrong in ["  Non-2xx or 3xx responses: 7\n", "  Socket errors: connect 0, read 1\n"] {
            assert!(responses(&format!("{wrong}{said}")).is_err(), "{wrong}");
        }
        assert!(responses("").is_err());
    }

    #[test]
    fn wrk_gets_whole_seconds() {
        let words =
            wrk_words(Ipv4Addr::LOCALHOST, 50, (Duration::from_millis(1500), true)).join(" ");
        assert_eq!(words, "wrk -t1 -c50 -d2s -H Connection: close http://127.0.0.1:80/");
        let words =
            wrk_words(Ipv4Addr::LOCALHOST, 50, (Duration::from_millis(100), false)).join(" ");
        assert_eq!(words, "wrk -t1 -c50 -d1s http://127.0.0.1:80/");
    }
}
