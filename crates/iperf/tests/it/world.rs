//! A server of ours, or a real one, and what a real client prints.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use wirebeat_iperf::{Error, Event, Iperf2Server, Server, ServerOptions, Stop, TestResult};
use wirebeat_testbed::{Options, Process, Program, Testbed};

/// How long is waited for what takes an idle machine a second or two.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a test of our server.
pub type Ended = Result<TestResult, String>;

/// Two namespaces and a cable.
pub fn bed() -> Testbed {
    Testbed::pair(&Options::default()).unwrap()
}

/// A server of ours, of either wire.
pub trait Serve: Sized {
    fn bind(listen: SocketAddr, options: ServerOptions) -> Result<Self, Error>;
    fn address(&self) -> SocketAddr;
    fn run(&mut self, stop: &Stop, events: &mut dyn FnMut(Event<'_>)) -> Result<(), Error>;
}

macro_rules! serve {
    ($server:ty) => {
        impl Serve for $server {
            fn bind(listen: SocketAddr, options: ServerOptions) -> Result<Self, Error> {
                Self::bind(listen, options)
            }
            fn address(&self) -> SocketAddr {
                self.address()
            }
            fn run(&mut self, stop: &Stop, events: &mut dyn FnMut(Event<'_>)) -> Result<(), Error> {
                self.run(stop, events)
            }
        }
    };
}
serve!(Server);
serve!(Iperf2Server);

/// Runs `work` while a server of ours runs in namespace `a` and listens on `listen`; then stops it. What became of its tests, and
/// what `work` returned.
pub fn serving<T: Send>(
    bed: &Testbed,
    serve: (&str, ServerOptions),
    work: impl FnOnce(SocketAddr, &Mutex<Vec<Ended>>) -> T + Send,
) -> (Vec<Ended>, T) {
    serving_by::<Server, T>(bed, serve, work)
}

/// The same by a server of this wire.
pub fn serving_by<S: Serve, T: Send>(
    bed: &Testbed,
    (listen, options): (&str, ServerOptions),
    work: impl FnOnce(SocketAddr, &Mutex<Vec<Ended>>) -> T + Send,
) -> (Vec<Ended>, T) {
    let stop = Stop::new();
    let ended = Mutex::new(Vec::new());
    let (address, bound) = channel();
    let returned = thread::scope(|scope| {
        let server = scope.spawn(|| {
            bed.a.namespace.enter().unwrap();
            let mut server = S::bind(listen.parse().unwrap(), options).unwrap();
            address.send(server.address()).unwrap();
            server.run(&stop, &mut |event| {
                if let Event::Ended(test) = event {
                    let test = test.as_ref().map_err(Error::to_string);
                    ended.lock().unwrap().push(test.cloned());
                }
            })
        });
        let address = bound.recv().unwrap();
        // a work that fails is not to leave the server running
        let returned =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(address, &ended)));
        stop.ask();
        server.join().unwrap().unwrap();
        returned
    });
    let returned = returned.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    (ended.into_inner().unwrap(), returned)
}

/// A client of iperf3 in namespace `a`, to a server on this machine.
pub fn iperf3_client(bed: &Testbed, to: SocketAddr, arguments: &str) -> Program {
    let client = Program::new(&bed.a.namespace, "iperf3");
    let ip = match to.ip() {
        ip if ip.is_unspecified() && ip.is_ipv4() => "127.0.0.1".to_owned(),
        ip if ip.is_unspecified() => "::1".to_owned(),
        ip => ip.to_string(),
    };
    let client = client.args(["-c", &ip, "-p", &to.port().to_string()]);
    client.args(arguments.split_ascii_whitespace()).output_limit(16 << 20)
}

/// What a client of iperf3 says in JSON.
pub fn json(bed: &Testbed, to: SocketAddr, arguments: &str) -> Value {
    let client = iperf3_client(bed, to, &format!("{arguments} -J"));
    let output = client.output(PATIENCE).unwrap();
    let json: Value = serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", output.stdout, output.stderr));
    json
}

/// The one test of our server that a client of iperf3 ran with these arguments, and what the client says of it.
pub fn served(arguments: &str) -> (TestResult, Value) {
    let bed = bed();
    let serve = ("127.0.0.1:0", ServerOptions::default());
    let (mut ended, json) = serving(&bed, serve, |address, _| json(&bed, address, arguments));
    assert_eq!(json.get("error"), None, "{arguments}: {json:#}");
    assert_eq!(ended.len(), 1, "{arguments}: {ended:?}");
    (ended.remove(0).unwrap(), json)
}

/// A server of iperf3 for one test in namespace `a`.
pub fn iperf3_server(bed: &Testbed, port: u16, arguments: &str) -> (Process, SocketAddr) {
    let server = Program::new(&bed.a.namespace, "iperf3");
    let server = server.args(["-s", "-1", "--forceflush", "-p", &port.to_string()]);
    let server = server.args(arguments.split_ascii_whitespace()).spawn().unwrap();
    if !arguments.contains("-J") {
        server.wait_for("Server listening", PATIENCE).unwrap();
    }
    (server, SocketAddr::from(([127, 0, 0, 1], port)))
}
