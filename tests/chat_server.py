"""A chat endpoint on loopback that answers by a function of the prompt."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def chat_server(choice: Callable[[dict[str, Any]], dict[str, Any]] | None = None) -> Iterator[Any]:
    """The server: set ``reply``, read ``url`` and ``requests`` (path, payload, key).

    Args:
        choice: makes the whole choice from the payload, in place of ``reply``.
    """

    def said(payload: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": httpd.reply(payload["messages"][-1]["content"])}
        return {"message": message, "finish_reason": "stop"}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            httpd.requests.append((self.path, payload, self.headers.get("Authorization")))
            answer = (choice or said)(payload)
            body = json.dumps({"choices": [{"index": 0, **answer}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            return

    httpd: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.requests, httpd.reply = [], lambda text: "CORRECT"
    httpd.url = f"http://127.0.0.1:{httpd.server_port}/v1"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield httpd
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
