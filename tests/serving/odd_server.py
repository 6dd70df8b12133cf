"""A server that answers in the way that a test tells it, be it as no engine would."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Odd(BaseHTTPRequestHandler):
    """Answers every question in the way that its server was told."""

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.way(self)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Listening(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Who asked has gone, as it should."""


@contextmanager
def server(way):
    with Listening(("127.0.0.1", 0), Odd) as served:
        served.way, served.keys = way, []
        threading.Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield served, f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()


def says(status: int, kind: str, body: bytes):
    def way(request: Odd) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return way
