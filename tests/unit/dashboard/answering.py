"""An HTTP server that answers as a Prometheus would: whatever a test tells it to, after as long as it tells it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

NOTHING = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}}).encode()


class Server:
    """`asked`: how often it was. `answer` and `seconds` are a test's to change."""

    def __init__(self) -> None:
        self.answer, self.asked, self.seconds = NOTHING, 0, 0.0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                time.sleep(outer.seconds)  # as slow as the test wants
                self.send_response(200)
                self.end_headers()
                with contextlib.suppress(OSError):  # who asked may be gone
                    self.wfile.write(outer.answer)

            def log_message(self, *_: Any) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@contextlib.contextmanager
def answering() -> Iterator[Server]:
    """One, for as long as the block."""
    made = Server()
    try:
        yield made
    finally:
        made.server.shutdown()
        made.server.server_close()
