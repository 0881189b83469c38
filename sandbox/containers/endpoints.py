# SPDX-License-Identifier: Apache-2.0
"""Find the Docker engine that runs, in the order that Docker's own client keeps.

An engine that the user chose (DOCKER_HOST, a Docker context) is used or complained about, never
replaced. Without a choice, the usual sockets are tried. Nothing here starts an engine.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import docker
import docker.errors
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.utils import kwargs_from_env

from sandbox.containers import apt
from sandbox.errors import Unavailable

OLDEST_API = (1, 41)
"""Docker 20.10: the first with cgroup namespaces and what the plans of cells compare."""

ANSWER_SECONDS = 30
"""An engine that runs answers within this time, also on a busy machine."""
CALL_SECONDS = 180
"""Any other call to the engine, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address where an engine may listen."""

    url: str
    chosen_by: str | None = None
    """Who said so (`DOCKER_HOST`, a context), or None for a usual place."""
    tls: docker.TLSConfig | None = None


class EndpointAnswer(str, Enum):
    """What a unix socket does when somebody knocks."""

    ACCEPTS = "accepts"
    ABSENT = "absent"
    REFUSES = "refuses"
    FORBIDS = "forbids"


def connect() -> docker.DockerClient:
    """Return a client of an engine that runs already. Raises Unavailable with what to do."""
    forbidden: Path | None = None
    for endpoint in endpoints(os.environ, Path.home(), os.geteuid()):
        path = socket_path(endpoint.url)
        answer = knock(path) if path else EndpointAnswer.ACCEPTS
        if answer is EndpointAnswer.ACCEPTS:
            return client_of(endpoint)
        if endpoint.chosen_by:
            raise Unavailable(
                f"{endpoint.chosen_by} names `{endpoint.url}`, which {_SAYS[answer]}: "
                "start that engine or choose another"
            )
        if answer is EndpointAnswer.FORBIDS:
            forbidden = path
    if forbidden:
        raise Unavailable(
            f"`{forbidden}` is closed to uid {os.geteuid()}: run "
            "`sudo usermod -aG docker $USER` and log in again"
        )
    raise Unavailable(how_to_get(sys.platform))


def client_of(endpoint: Endpoint) -> docker.DockerClient:
    """Return a client of one engine. Raises Unavailable if it is silent or too old."""
    try:
        client = docker.DockerClient(
            endpoint.url, timeout=ANSWER_SECONDS, tls=endpoint.tls or False
        )
        version = client.version()
    except (docker.errors.DockerException, OSError) as error:
        reason = " ".join(str(error).split())
        raise Unavailable(f"the engine at `{endpoint.url}` does not answer: {reason}") from None
    if problem := api_problem(str(version.get("ApiVersion", ""))):
        raise Unavailable(f"{problem}: upgrade the engine at `{endpoint.url}`")
    client.api.timeout = CALL_SECONDS
    return client


def endpoints(environ: Mapping[str, str], home: Path, uid: int) -> tuple[Endpoint, ...]:
    """Return where to look for an engine: what was chosen alone, or else the usual places.

    Raises Unavailable when the chosen context does not exist.
    """
    if endpoint := chosen(environ):
        return (endpoint,)
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    usual = (
        Path("/var/run/docker.sock"),
        Path(runtime) / "docker.sock",  # rootless
        home / ".docker/run/docker.sock",  # Docker Desktop on macOS
        home / ".docker/desktop/docker.sock",  # Docker Desktop on Linux
    )
    return tuple(Endpoint(f"unix://{path}") for path in usual)


def chosen(environ: Mapping[str, str]) -> Endpoint | None:
    """Return the engine that the user chose, or None. Raises Unavailable if it is not defined."""
    if host := environ.get("DOCKER_HOST"):
        tls = kwargs_from_env(dict(environ)).get("tls")  # DOCKER_TLS_VERIFY, DOCKER_CERT_PATH
        return Endpoint(host, "DOCKER_HOST", tls or None)
    name = environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if name == "default":
        return None
    try:
        context = ContextAPI.get_context(name)
    except (docker.errors.ContextException, KeyError, OSError, ValueError) as error:
        raise Unavailable(f"docker context `{name}` cannot be read: {error!r}") from None
    if context is None or not context.Host:
        raise Unavailable(f"docker context `{name}` does not exist: see `docker context ls`")
    return Endpoint(context.Host, f"docker context `{name}`", context.TLSConfig or None)


def knock(path: Path) -> EndpointAnswer:
    """Say whether somebody listens on a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(ANSWER_SECONDS)
        try:
            probe.connect(str(path))
        except PermissionError:
            return EndpointAnswer.FORBIDS
        except (FileNotFoundError, NotADirectoryError):
            return EndpointAnswer.ABSENT
        except OSError:
            return EndpointAnswer.REFUSES
    return EndpointAnswer.ACCEPTS


def api_problem(version: str) -> str | None:
    """Return why an engine with this API version will not do, or None."""
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found >= OLDEST_API:
        return None
    oldest = ".".join(map(str, OLDEST_API))
    return f"the engine's API is {version or 'unknown'}; {oldest} (Docker 20.10) or newer is needed"


def socket_path(url: str) -> Path | None:
    """Return the path of a unix socket's URL, or None for another kind of URL."""
    return Path(url.removeprefix("unix://")) if url.startswith("unix://") else None


def how_to_get(platform: str) -> str:
    """Return one line that says what is missing and how to get it."""
    if platform == "darwin":
        return (
            "no Docker engine answers: start Docker Desktop, "
            "or get it with `brew install --cask docker`"
        )
    as_root = "or run this once as root"
    if shutil.which("dockerd", path=apt.search_path()):
        return f"no Docker engine answers: run `sudo systemctl start docker`, {as_root}"
    if shutil.which("apt-get"):
        return f"no Docker engine is installed: run `sudo apt-get install docker.io`, {as_root}"
    return "no Docker engine is installed: install Docker Engine 20.10 or newer and start it"


_SAYS = {
    EndpointAnswer.ABSENT: "does not exist",
    EndpointAnswer.REFUSES: "does not answer",
    EndpointAnswer.FORBIDS: "you may not use",
}
