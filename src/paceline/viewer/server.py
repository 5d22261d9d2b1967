"""The HTTP server of `paceline view`: on loopback, for the pages that it serves itself.

| request | answer |
|---|---|
| GET /TOKEN/RUN/ | the page of a run, by its number |
| POST /TOKEN/RUN/predict | a scenario, packed as the page reads it |
| POST /TOKEN/RUN/search | starts a search |
| GET /TOKEN/search/NUMBER, POST /TOKEN/search/NUMBER/stop | how far it is; ends it |

A question that cannot be answered gets status 400 and `{"error": ...}`.
"""

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from paceline.errors import PacelineError
from paceline.viewer.errors import ViewError
from paceline.viewer.guard import Guard
from paceline.viewer.viewing import Viewer

LOOPBACK = "127.0.0.1"
_LONGEST_QUESTION = 1 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Answer:
    """What goes back to the browser."""

    body: bytes
    kind: str = "application/json"
    status: int = 200
    place: str = ""  # of a redirection


@dataclass(frozen=True, eq=False)
class Server:
    """One that runs."""

    guard: Guard

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.guard.port}/{self.guard.token}/0/"


@contextmanager
def serving(viewer: Viewer, port: int = 0) -> Iterator[Server]:
    """Serve until the end of the block; port 0 is any that is free."""
    token = secrets.token_urlsafe(18)
    try:
        http = ThreadingHTTPServer((LOOPBACK, port), BaseHTTPRequestHandler)
    except OSError as error:
        raise ViewError(f"port {port} cannot be had ({error.strerror}); leave --port out") from None
    guard = Guard(token, http.server_address[1])
    http.RequestHandlerClass = _handler(viewer, guard)
    http.daemon_threads = True
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield Server(guard)
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
        viewer.searches.close()


def answered(viewer: Viewer, method: str, parts: list[str], body: bytes) -> Answer:
    """What a request under the token gets; `parts` are those of its path behind the token."""
    match method, parts:
        case "GET", [] | [""]:
            return Answer(b"", "text/plain", 302, "0/")
        case "GET", [run, ""] if run.isdecimal():
            return Answer(viewer.page(int(run)).encode(), "text/html; charset=utf-8")
        case "POST", [run, "predict"] if run.isdecimal():
            found = viewer.predict(int(run), _question(body))
            return Answer(found, "application/octet-stream")
        case "POST", [run, "search"] if run.isdecimal():
            return _json(viewer.search(int(run), _question(body)))
        case "GET", ["search", number] if number.isdecimal():
            return _json(viewer.searches.told(int(number)))
        case "POST", ["search", number, "stop"] if number.isdecimal():
            return _json(viewer.searches.stop(int(number)))
    return _json({"error": "there is nothing at this address"}, 404)


def _question(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError as error:
        raise ViewError(f"the question is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ViewError("the question is to be a JSON object")
    return found


def _json(data: dict[str, Any], status: int = 200) -> Answer:
    return Answer(json.dumps(data).encode(), status=status)


def _handler(viewer: Viewer, guard: Guard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version, sys_version = "paceline", ""

        def do_GET(self) -> None:
            self._answer("GET", b"")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not length.isdecimal() or int(length) > _LONGEST_QUESTION:
                self.close_connection = True
                self._send(_json({"error": "a question is a JSON text of up to 1 MiB"}, 413))
                return
            self._answer("POST", self.rfile.read(int(length)))

        def _answer(self, method: str, body: bytes) -> None:
            why = guard.refusal(self.path, dict(self.headers.items()))
            if why:
                self._send(_json({"error": why}, 403))
                return
            parts = self.path.partition("?")[0].split("/")[2:]
            try:
                self._send(answered(viewer, method, parts, body))
            except PacelineError as error:
                self._send(_json({"error": str(error)}, 400))

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            headers = {
                "Content-Type": answer.kind,
                "Content-Length": str(len(answer.body)),
                "Cache-Control": "no-store",
                "Referrer-Policy": "no-referrer",
                "X-Content-Type-Options": "nosniff",
                "Cross-Origin-Resource-Policy": "same-origin",
                **({"Location": answer.place} if answer.place else {}),
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            _log.debug(format, *args)

    return Handler
