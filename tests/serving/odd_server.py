"""A server whose answers a test chooses, even answers that no engine would give."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from specviz.experiments.run.engine_lane import WARM_UP_TOKENS


class Odd(BaseHTTPRequestHandler):
    """A handler that answers every request with `server.way`, the function that a test chose."""

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        self.server.paths.append(self.path)
        self.server.way(self)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Listening(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Ignore clients that closed the connection, because the tests expect that."""


@contextmanager
def server(way):
    with Listening(("127.0.0.1", 0), Odd) as served:
        served.way, served.keys, served.paths = way, [], []
        threading.Thread(target=served.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield served, f"http://127.0.0.1:{served.server_port}"
        finally:
            served.shutdown()


METRICS = b"vllm:generation_tokens_total 1.0\n"
END = {"choices": [{"token_ids": [], "finish_reason": "length"}]}


def tokens(*ids: int) -> dict:
    return {"choices": [{"token_ids": list(ids), "finish_reason": None}]}


def like_vllm(sample: list[int], *events: object):
    """Return a function for the attribute `way` of a server that imitates vLLM.

    The server returns `sample` as the tokens of the text with which the app recognises a tokenizer.
    Then it streams the events. If an event is a function, the server calls it instead of sending
    it.
    """

    def way(request: Odd) -> None:
        size = int(request.headers.get("Content-Length") or 0)
        asked = json.loads(request.rfile.read(size) or b"{}")
        told = {
            "/metrics": METRICS,
            "/v1/models": b'{"data": [{"id": "m"}]}',
            "/version": b'{"version": "0.32.0"}',
            "/tokenize": json.dumps({"tokens": sample}).encode(),
        }.get(request.path)
        if told is not None:
            return says(200, "text/plain", told)(request)
        request.send_response(200)
        request.end_headers()
        is_warm_up = asked["max_tokens"] == WARM_UP_TOKENS
        for each in [tokens(5), END] if is_warm_up else events:
            if callable(each):
                each()
            else:
                request.wfile.write(f"data: {json.dumps(each)}\n\n".encode())

    return way


def says(status: int, kind: str, body: bytes):
    def way(request: Odd) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return way
