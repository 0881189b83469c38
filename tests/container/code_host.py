# SPDX-License-Identifier: Apache-2.0
"""A code host on this machine's loopback: git over https, a package index, an API, logged into."""

from __future__ import annotations

import base64
import io
import os
import ssl
import subprocess
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WHEEL = "demo_of_ours-1.0-py3-none-any.whl"


def wheel() -> bytes:
    """Return a package with one module."""
    out, info = io.BytesIO(), "demo_of_ours-1.0.dist-info"
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("demo_of_ours.py", "WORD = 'carried'\n")
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: demo-of-ours\nVersion: 1.0\n"
        )
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        names = ("demo_of_ours.py", f"{info}/METADATA", f"{info}/WHEEL", f"{info}/RECORD")
        file.writestr(f"{info}/RECORD", "".join(f"{one},,\n" for one in names))
    return out.getvalue()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    login: str
    heard: list[str]

    def do_GET(self) -> None:
        """Answer whoever logged in."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.heard.append(f"{self.command} {self.path}")
        if self.headers.get("Authorization") != self.login:
            self._send(401, b"who are you?", ("WWW-Authenticate", 'Basic realm="code"'))
        elif self.path.startswith("/simple/demo-of-ours/"):
            link = f'<a href="/files/{WHEEL}">{WHEEL}</a>'
            self._send(200, link.encode(), ("Content-Type", "text/html"))
        elif self.path == f"/files/{WHEEL}":
            self._send(200, wheel())
        elif self.path == "/api":
            self._send(200, f"hello, you sent {self.headers['Authorization']}\n".encode())
        else:
            self._git(body)

    do_POST = do_GET

    def _git(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        names = {"Content-Type": "CONTENT_TYPE", "Content-Encoding": "HTTP_CONTENT_ENCODING",
                 "Git-Protocol": "GIT_PROTOCOL"}  # fmt: skip
        told = {name: self.headers[key] for key, name in names.items() if self.headers.get(key)}
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REMOTE_USER": "me",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_LENGTH": str(len(body)),
                **told,
            },
        )
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(fields.pop("Status", "200").split()[0])
        fields.pop("Content-Length", None)
        self._send(status, rest, *fields.items())

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class CodeHost:
    """The server; whoever logs in with the secret may do everything."""

    def __init__(self, root: Path, context: ssl.SSLContext, user: str, secret: str) -> None:
        self.heard: list[str] = []
        self.root = root
        root.mkdir()
        login = base64.b64encode(f"{user}:{secret}".encode()).decode()
        fields = {"root": root, "login": f"Basic {login}", "heard": self.heard}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (_Handler,), fields))
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def branches(self, name: str) -> list[str]:
        """Return the branches of a repository."""
        told = ["git", "-C", str(self.root / name), "for-each-ref", "--format=%(refname:short)"]
        return subprocess.run(told, capture_output=True, text=True, check=True).stdout.split()

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
