# A web server for tests, of Python's own modules: server.py FOLDER. Serves FOLDER/www on port 80, writes FOLDER/access.log:
# method, status and bytes of each response. Port 81 keeps a connection for a second; responses below /old/ are those of HTTP/1.0.
import hashlib
import http.server
import socketserver
import sys
import threading
import time

folder = sys.argv[1]
log = open(folder + "/access.log", "w", buffering=1)
lock = threading.Lock()


class Counted:
    """Counts what is written to a connection."""

    def __init__(self, raw):
        self.raw, self.count = raw, 0

    def write(self, data):
        self.count += len(data)
        return self.raw.write(data)

    def __getattr__(self, name):
        return getattr(self.raw, name)


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    # each write is a segment of its own, so that chunks begin and end anywhere
    wbufsize = 0
    disable_nagle_algorithm = True

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=folder + "/www")

    def setup(self):
        super().setup()
        self.wfile = Counted(self.wfile)

    def handle_one_request(self):
        self.status, begun = None, self.wfile.count
        super().handle_one_request()
        if self.status is not None:
            with lock:
                log.write(f"{self.command} {self.status} {self.wfile.count - begun}\n")

    def send_response_only(self, code, message=None):
        if code >= 200:
            self.status = code
        super().send_response_only(code, message)

    def log_message(self, *arguments):
        pass

    def content(self):
        with open(folder + "/www/" + self.path.rsplit("/", 1)[-1], "rb") as file:
            return file.read()

    def do_GET(self):
        if self.path == "/empty":
            self.send_response(204)
            self.end_headers()
        elif self.path == "/chunked":
            self.chunked(self.content())
        elif self.path.startswith("/old/"):
            # no length: the end of the connection ends it, as in HTTP/1.0
            self.protocol_version = "HTTP/1.0"
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.content())
            self.close_connection = True
        else:
            super().do_GET()

    def chunked(self, content):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        size, at = 1, 0
        while at < len(content):
            piece = content[at:at + size]
            whole = b"%x;name=value\r\n%s\r\n" % (len(piece), piece)
            # in three segments: within the size, and within the line end behind the data
            for part in (whole[:1], whole[1:-1], whole[-1:]):
                self.wfile.write(part)
            time.sleep(0.001)
            at, size = at + size, size * 3 % 7919
        self.wfile.write(b"0\r\n")
        self.wfile.write(b"Trailer: yes\r\n\r\n")

    def do_POST(self):
        content = self.rfile.read(int(self.headers["Content-Length"]))
        answer = hashlib.sha256(content).hexdigest().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, request, client_address):
        # a client that goes away is no error of the server
        pass


class Impatient(Handler):
    timeout = 1


threading.Thread(target=Server(("0.0.0.0", 81), Impatient).serve_forever, daemon=True).start()
Server(("0.0.0.0", 80), Handler).serve_forever()
