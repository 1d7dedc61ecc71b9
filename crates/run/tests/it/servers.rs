//! Servers of others at the end of a cable: nginx, Apache, HAProxy and one of Python, each with a log that a report is compared with.
//!
//! A server runs in the foreground, from a folder of its own, and is gone with its handle. All of them write the same line of log for
//! a response: its method, its status, its bytes as the server counts what it wrote (content, status line and headers), and, but for
//! HAProxy and Python, those of its content.
//!
//! Connections to port 80 are kept for a minute and those to port 81 for a second. nginx takes five requests on one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use wirebeat_testbed::{Process, Program, Testbed};

use crate::interop::until;

/// Bytes of `/page`.
pub const PAGE: u64 = 10_000;
/// Bytes of `/large`.
pub const LARGE: u64 = 10_000_000;
/// Bytes of `/chunked`.
pub const CHUNKED: u64 = 100_000;
/// When every file was written last: 1 January 2025, and so in HTTP.
pub const WRITTEN: &str = "Wed, 01 Jan 2025 00:00:00 GMT";
const WRITTEN_UNIX: u64 = 1_735_689_600;

/// Folders that this process has made.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A folder that is gone with its handle.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("wirebeat-server-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(WRITTEN_UNIX)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A response, as a server's log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub method: String,
    pub status: u16,
    /// Of the response in all.
    pub bytes: u64,
    /// Of its content, where the server says so.
    pub content: Option<u64>,
}

/// A server at the end `b` of a testbed, on port 80.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    log: PathBuf,
    /// Removed after the process has ended, as fields are dropped in order.
    folder: Folder,
    /// What it passes requests to.
    behind: Option<Box<Server>>,
}

/// What a server is started with.
struct Start<'a> {
    program: &'a str,
    arguments: Vec<String>,
    port: u16,
}

impl Server {
    fn start(bed: &Testbed, folder: Folder, start: Start<'_>) -> Server {
        let log = folder.path().join("access.log");
        let program = Program::new(&bed.b.namespace, start.program).args(start.arguments);
        let process = program.output_limit(16 << 20).spawn().unwrap();
        let listens = || bed.b.namespace.run(|| listens(start.port)).unwrap();
        until(&format!("{} listens", start.program), listens);
        Server { process, log, folder, behind: None }
    }

    /// nginx.
    pub fn nginx(bed: &Testbed) -> Server {
        Server::nginx_on(bed, [80, 81])
    }

    fn nginx_on(bed: &Testbed, ports: [u16; 2]) -> Server {
        let folder = Folder::new();
        contents(&folder);
        let at = folder.path().display();
        let [port, impatient] = ports;
        // what is posted is read whole before the second server answers
        let config = format!(
            "worker_processes 1; daemon off; error_log {at}/error.log; pid {at}/pid;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ log_format lines '$request_method $status $bytes_sent $body_bytes_sent';\n\
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
             fastcgi_temp_path {at}/fastcgi; scgi_temp_path {at}/scgi; uwsgi_temp_path {at}/uwsgi;\n\
             types {{ }} default_type text/plain; client_max_body_size 100m; keepalive_requests 5;\n\
             server {{ listen {impatient}; root {at}/www; keepalive_timeout 1s; access_log {at}/access.log lines; }}\n\
             server {{ listen {port}; root {at}/www; keepalive_timeout 60s; access_log {at}/access.log lines;\n\
             location /empty {{ return 204; }} location /gone {{ return 404 'no'; }}\n\
             location /chunked {{ ssi on; ssi_types text/plain; }}\n\
             location /posted {{ proxy_pass http://127.0.0.1:8089; }} }}\n\
             server {{ listen 127.0.0.1:8089; access_log off; location / {{ return 200 'thanks'; }} }} }}\n"
        );
        folder.write("nginx.conf", config);
        let file = folder.path().join("nginx.conf").display().to_string();
        let arguments = vec!["-c".to_owned(), file, "-p".to_owned(), at.to_string()];
        Server::start(bed, folder, Start { program: "nginx", arguments, port })
    }

    /// nginx with the settings that it has by itself, on port 80.
    pub fn nginx_as_it_comes(bed: &Testbed) -> Server {
        let folder = Folder::new();
        contents(&folder);
        let at = folder.path().display();
        let config = format!(
            "daemon off; error_log {at}/error.log; pid {at}/pid; events {{ }}\n\
             http {{ client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n\
             scgi_temp_path {at}/scgi; uwsgi_temp_path {at}/uwsgi; access_log off;\n\
             server {{ listen 80; root {at}/www; }} }}\n"
        );
        folder.write("nginx.conf", config);
        let file = folder.path().join("nginx.conf").display().to_string();
        let arguments = vec!["-c".to_owned(), file, "-p".to_owned(), at.to_string()];
        Server::start(bed, folder, Start { program: "nginx", arguments, port: 80 })
    }

    /// What it says of errors (nginx).
    pub fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }

    /// Apache, without the modules that its distribution adds.
    pub fn apache(bed: &Testbed) -> Server {
        let folder = Folder::new();
        contents(&folder);
        let at = folder.path().display();
        let modules = Path::new("/usr/lib/apache2/modules");
        let load: String = ["mpm_event", "authz_core", "alias", "include", "reflector"]
            .map(|name| format!("LoadModule {name}_module {}/mod_{name}.so\n", modules.display()))
            .concat();
        // more threads than connections: with none to spare, this server closes those that wait for a request
        let config = format!(
            "{load}ServerName test\nServerRoot {at}\nPidFile {at}/pid\nDefaultRuntimeDir {at}\nListen 0.0.0.0:80\nListen 0.0.0.0:81\n\
             User nobody\nGroup nogroup\nErrorLog {at}/error.log\nServerLimit 1\nStartServers 1\nThreadsPerChild 64\nMaxRequestWorkers 64\n\
             LogFormat \"%m %>s %O %B\" lines\nCustomLog {at}/access.log lines\nKeepAlive On\nKeepAliveTimeout 60\n\
             DocumentRoot {at}/www\n<Directory {at}/www>\nRequire all granted\nOptions +Includes\n</Directory>\n\
             <VirtualHost *:81>\nDocumentRoot {at}/www\nKeepAliveTimeout 1\n</VirtualHost>\n\
             Redirect 204 /empty\n<Location /chunked>\nSetOutputFilter INCLUDES\n</Location>\n\
             <Location /posted>\nSetHandler reflector\n</Location>\n"
        );
        folder.write("apache.conf", config);
        let file = folder.path().join("apache.conf").display().to_string();
        let arguments = vec!["-f".to_owned(), file, "-D".to_owned(), "FOREGROUND".to_owned()];
        Server::start(bed, folder, Start { program: "apache2", arguments, port: 80 })
    }

    /// HAProxy, with an nginx behind it.
    pub fn haproxy(bed: &Testbed) -> Server {
        let behind = Server::nginx_on(bed, [8080, 8081]);
        let folder = Folder::new();
        // threads that write a line at the same time may lose one of them
        let config = "global\n log stdout format raw local0\n maxconn 500\n nbthread 1\n\
             defaults\n mode http\n log global\n option dontlognull\n log-format \"%HM %ST %B\"\n\
             timeout connect 20s\n timeout client 60s\n timeout server 60s\n\
             frontend impatient\n bind 0.0.0.0:81\n timeout http-keep-alive 1s\n default_backend nginx\n\
             frontend web\n bind 0.0.0.0:80\n timeout http-keep-alive 60s\n default_backend nginx\n\
             backend nginx\n server one 127.0.0.1:8080\n";
        folder.write("haproxy.cfg", config);
        let file = folder.path().join("haproxy.cfg").display().to_string();
        let arguments = vec!["-db".to_owned(), "-f".to_owned(), file];
        let mut server =
            Server::start(bed, folder, Start { program: "haproxy", arguments, port: 80 });
        server.behind = Some(Box::new(behind));
        server
    }

    /// `http.server` of Python.
    pub fn python(bed: &Testbed) -> Server {
        let folder = Folder::new();
        contents(&folder);
        folder.write("server.py", include_str!("servers/server.py"));
        let arguments = [folder.path().join("server.py"), folder.path().to_owned()];
        let arguments = arguments.map(|path| path.display().to_string()).to_vec();
        Server::start(bed, folder, Start { program: "python3", arguments, port: 80 })
    }

    /// Its log when that has `count` lines, or when no more have come for long.
    pub fn logged(&self, count: usize) -> Vec<Logged> {
        let read = || -> Vec<Logged> {
            let text = match self.behind {
                Some(_) => self.process.printed(),
                None => fs::read_to_string(&self.log).unwrap_or_default(),
            };
            let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
            whole.lines().filter_map(line).collect()
        };
        until(&format!("{count} lines of log in {:?}", self.folder), || read().len() >= count);
        read()
    }

    /// Responses with this status in its log, and the bytes of content in them.
    pub fn tally(&self, status: u16, count: usize) -> (u64, u64) {
        let with = self.logged(count).into_iter().filter(|one| one.status == status);
        with.fold((0, 0), |(count, sum), one| (count + 1, sum + one.content.unwrap_or(0)))
    }

    /// The server behind this one.
    pub fn behind(&self) -> Option<&Server> {
        self.behind.as_deref()
    }
}

fn line(line: &str) -> Option<Logged> {
    let mut words = line.split_whitespace();
    let mut next = || words.next();
    let (method, status, bytes) = (next()?, next()?.parse().ok()?, next()?.parse().ok()?);
    let content = next().and_then(|content| content.parse().ok());
    Some(Logged { method: method.to_owned(), status, bytes, content })
}

/// The files that every server has.
fn contents(folder: &Folder) {
    let text = |length: u64| {
        b"0123456789abcde\n".repeat(length as usize / 16 + 1)[..length as usize].to_vec()
    };
    for (name, length) in [("page", PAGE), ("large", LARGE), ("chunked", CHUNKED)] {
        folder.write(&format!("www/{name}"), text(length));
    }
}

/// Whether somebody listens on this port in the namespace of the calling thread.
pub fn listens(port: u16) -> bool {
    // proc(5): the second column is the local address, the fourth the state, where 0A is LISTEN
    let listens = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit(':').next());
        local == Some(&format!("{port:04X}")) && words.nth(1) == Some("0A")
    };
    ["tcp", "tcp6"].iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        table.unwrap_or_default().lines().any(listens)
    })
}
