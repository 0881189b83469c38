# SPDX-License-Identifier: Apache-2.0
"""A program that is called like dockerd and answers `GET /version` on its socket, nothing else."""

from __future__ import annotations

import json
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path


def option(name: str, otherwise: str = "") -> str:
    """Return the value of `--name=value` on the command line."""
    values = [word.split("=", 1)[1] for word in sys.argv if word.startswith(f"--{name}=")]
    return values[-1] if values else otherwise


def die(message: str) -> None:
    """End as dockerd does."""
    print(f'time="2026-01-01T00:00:00Z" level=fatal msg="{message}"')
    sys.exit(1)


class Answer(BaseHTTPRequestHandler):
    """Answers every request with a version."""

    def do_GET(self) -> None:
        """Answer."""
        body = json.dumps({"Version": "fake", "ApiVersion": option("api", "1.41")}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        """Name the client, which has no address."""
        return "client"


def main() -> None:
    """Serve until killed."""
    if message := option("die"):
        die(message)
    if "--no-iptables" in sys.argv and "--iptables=false" not in sys.argv:
        die("failed to start daemon: failed to create NAT chain DOCKER: iptables not found")
    pid_file = Path(option("pidfile"))
    if pid_file.exists():
        die("pid file found, ensure docker is not running")
    pid_file.write_text(str(os.getpid()))
    path = Path(option("host").removeprefix("unix://"))
    path.unlink(missing_ok=True)
    with socketserver.ThreadingUnixStreamServer(str(path), Answer) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
