"""A schema registry for tests: it answers `GET /schemas/ids/{id}`, to those who know the password.

The paths, the answers and the codes of errors are those of Confluent's documentation.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry(ThreadingHTTPServer):
    """A registry.

    Attributes:
        answers: Id of a schema -> what is answered.
        asked: The ids that were asked for.
    """

    daemon_threads = True

    def __init__(self, schemas: Mapping[int, str], auth: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.answers: dict[int, dict[str, Any]] = {n: {"schema": s} for n, s in schemas.items()}
        self.asked: list[int] = []
        self.auth = auth and f"Basic {base64.b64encode(auth.encode()).decode()}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        *path, number = self.path.split("/")
        if self.server.auth and self.headers.get("Authorization") != self.server.auth:
            self._answer(401, {"error_code": 401, "message": "Unauthorized"})
        elif path == ["", "schemas", "ids"] and int(number) in self.server.answers:
            self.server.asked.append(int(number))
            self._answer(200, self.server.answers[int(number)])
        else:
            self._answer(404, {"error_code": 40403, "message": "Schema not found"})

    def _answer(self, code: int, said: dict[str, Any]) -> None:
        text = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""


@contextmanager
def running_registry(schemas: Mapping[int, str], auth: str | None = None) -> Iterator[Registry]:
    """Run a registry.

    Args:
        schemas: Its schemas, by their ids.
        auth: `user:password`, if it asks for one.
    """
    with Registry(schemas, auth) as registry:
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        yield registry
        registry.shutdown()
