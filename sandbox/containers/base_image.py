# SPDX-License-Identifier: Apache-2.0
"""Have a base image: the official Debian one, or one made of the host's own Debian packages."""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from pathlib import Path

import docker
import docker.errors

from sandbox.containers import apt
from sandbox.containers.progress import Progress
from sandbox.errors import Unavailable

OFFICIAL = "debian:bookworm-slim"
MADE_HERE = "lockgate/base"

PULL_IDLE_SECONDS = 20.0
"""A pull that says nothing for this long has failed."""

_LEAN = (
    # What nobody reads in a container.
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)


def ensure_base(client: docker.DockerClient, progress: Progress) -> str:
    """Return the tag of a base image, pulled or made first if need be. Raises Unavailable."""
    made_here = f"{MADE_HERE}:{apt.release().get('VERSION_CODENAME', 'debian')}"
    for tag in (OFFICIAL, made_here):
        if _exists(client, tag):
            return tag
    progress.step(f"pulling {OFFICIAL}")
    problem = pull(client, OFFICIAL, progress)
    if problem is None:
        return OFFICIAL
    progress.note(f"{OFFICIAL} cannot be pulled: {problem}")
    if not apt.can_install():
        raise Unavailable(
            f"base image `{OFFICIAL}` cannot be pulled, and only root on Debian can make one of "
            "packages: `docker load` it, or run `lockgate setup` once as root"
        )
    _make(client, made_here, progress)
    return made_here


def pull(client: docker.DockerClient, image: str, progress: Progress) -> str | None:
    """Pull an image and return None, or why it cannot be had.

    A registry that does not answer costs PULL_IDLE_SECONDS, not the engine's own minutes.
    """
    messages: queue.Queue[dict[str, object] | None] = queue.Queue()

    def read() -> None:
        try:
            repository, tag = split_tag(image)
            for message in client.api.pull(repository, tag, stream=True, decode=True):
                messages.put(message)
        except (docker.errors.APIError, OSError) as error:
            messages.put({"error": getattr(error, "explanation", None) or str(error)})
        messages.put(None)

    # The engine goes on by itself if nobody reads, so the thread may be left behind.
    threading.Thread(target=read, name="pull", daemon=True).start()
    problem: str | None = None
    while True:
        try:
            message = messages.get(timeout=PULL_IDLE_SECONDS)
        except queue.Empty:
            return f"no answer within {PULL_IDLE_SECONDS:.0f} s"
        if message is None:
            return problem
        if "error" in message:
            problem = " ".join(str(message["error"]).split())
        progress.detail(f"{message.get('status', '')} {message.get('progress', '')}")


def split_tag(image: str) -> tuple[str, str]:
    """Split `name:tag` at the colon that is not part of a registry's port."""
    repository, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return repository, tag


def _make(client: docker.DockerClient, tag: str, progress: Progress) -> None:
    if shutil.which("mmdebstrap") is None:
        apt.install(["mmdebstrap"], progress)
    sources = apt.sources()
    if not sources:
        apt.refresh_lists(progress)
        sources = apt.sources()
    if not sources:
        raise Unavailable("apt names no source of the system's own packages: see /etc/apt")
    progress.step("making a base image of Debian packages")
    with tempfile.TemporaryDirectory(prefix="lockgate-base-") as folder:
        archive = Path(folder) / "base.tar"
        command = ["mmdebstrap", "--variant=minbase"]
        command += [f"--dpkgopt={option}" for option in _LEAN]
        command += [f"--aptopt={option}" for option in apt.date_options()]
        command += [apt.release()["VERSION_CODENAME"], str(archive), *sources]
        apt.run(command, progress)
        progress.step("importing the base image")
        repository, name = split_tag(tag)
        client.api.import_image(src=str(archive), repository=repository, tag=name)
    if not _exists(client, tag):
        raise Unavailable(f"the engine did not import the base image `{tag}`")


def _exists(client: docker.DockerClient, tag: str) -> bool:
    try:
        client.images.get(tag)
    except docker.errors.ImageNotFound:
        return False
    return True
