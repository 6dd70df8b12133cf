"""Serve a folder like the Hugging Face Hub serves a repository: `python -m … FOLDER`.

Only the requests of the Hub's client are supported. The program prints its address and then serves
until it is stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SHA = "1" * 40


class Repository(BaseHTTPRequestHandler):
    folder = Path()

    def do_HEAD(self) -> None:
        self.serve_file(with_content=False)

    def do_GET(self) -> None:
        if not self.path.startswith("/api/"):
            self.serve_file(with_content=True)
        elif "/tree/" in self.path:
            self.answer(
                [{"type": "file", "path": name, "size": size, "oid": SHA} for name, size in files()]
            )
        else:
            siblings = [{"rfilename": name, "size": size} for name, size in files()]
            self.answer({"id": "owner/model", "sha": SHA, "siblings": siblings, "gated": False})

    def serve_file(self, with_content: bool) -> None:
        file = self.folder / self.path.rpartition("/")[2].partition("?")[0]
        if not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", SHA)
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def answer(self, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *given: object) -> None:
        """Discard the log lines of requests."""


def files() -> list[tuple[str, int]]:
    return [(file.name, file.stat().st_size) for file in sorted(Repository.folder.iterdir())]


if __name__ == "__main__":
    Repository.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Repository)
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()
