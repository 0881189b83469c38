# SPDX-License-Identifier: Apache-2.0
"""Have the engine build one image of a recipe, and mark it with labels."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import docker
import docker.errors

from sandbox.containers.progress import Progress
from sandbox.containers.recipe import Files, context, digest
from sandbox.errors import ImageProblem
from sandbox.host.dirs import Dirs
from sandbox.host.version import VERSION

LABEL_IMAGE = "org.lockgate.image"
"""`cell` or `keeper`."""
LABEL_CODE = "org.lockgate.code"
"""Digest of the code under /cell."""
LABEL_FROM = "org.lockgate.from"
"""The image that it was made from, as the user named it."""
LABEL_KIT = "org.lockgate.kit"
"""The kit of packages that was added to the cell's own image."""
LABEL_VERSION = "org.lockgate.version"
"""The version of Lockgate that built it, for people."""
_RECIPE_ERROR = "lockgate: error: "


@dataclass(frozen=True, slots=True)
class Build:
    """One image to be built."""

    recipe: str
    """`cell`, `keeper`, or `kit`, which is a cell's image with more packages."""
    base: str
    tag: str
    inside: Files
    """The code under /cell."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    foreign: bool = False
    """Whether the base is somebody else's image."""
    kit: str = ""

    def labels(self) -> dict[str, str]:
        """Return the labels that mark the image as Lockgate's."""
        found = {
            LABEL_IMAGE: "keeper" if self.recipe == "keeper" else "cell",
            LABEL_CODE: digest(self.inside),
            LABEL_FROM: self.base,
            LABEL_VERSION: VERSION,
        }
        return found | ({LABEL_KIT: self.kit} if self.kit else {})


def build_image(client: docker.DockerClient, build: Build, progress: Progress) -> None:
    """Build an image. Raises ImageProblem."""
    labels = build.labels()
    # The engine's bridge may be missing or lead nowhere. A recipe over a base of ours may use the
    # host's network instead; what comes with somebody else's image may not, and goes without.
    bridge = (None,) if client.networks.list(names=["bridge"]) else ()
    for network in (*bridge, "none" if build.foreign else "host"):
        messages = client.api.build(
            fileobj=context(build.recipe, build.inside),
            custom_context=True,
            dockerfile=f"{build.recipe}.Dockerfile",
            tag=build.tag,
            rm=True,
            forcerm=True,
            decode=True,
            labels=labels,
            buildargs={"BASE": build.base, **build.arguments, **_proxies()},
            use_config_proxy=True,
            network_mode=network,
        )
        problem = _follow(messages, progress)
        if problem is None or not re.search("on network bridge|not be installed", problem):
            break
        progress.note(f"on the {network or 'bridge'} network: {problem}")
    if problem:
        raise ImageProblem(f"image `{build.tag}` cannot be built: {problem}")
    if client.images.get(build.tag).labels.get(LABEL_CODE) != labels[LABEL_CODE]:
        raise ImageProblem(
            f"image `{build.tag}` was built without its labels: the engine ignores them"
        )


def _follow(messages: Iterator[dict[str, object]], progress: Progress) -> str | None:
    """Show what a build prints and return why it failed, in the recipe's own words if it spoke."""
    ours: str | None = None
    try:
        for message in messages:
            for line in str(message.get("stream", "")).splitlines():
                progress.detail(line)
                if _RECIPE_ERROR in line:
                    ours = line.split(_RECIPE_ERROR, 1)[1].removesuffix("\x1b[0m")
            if failure := message.get("error") or message.get("message"):
                return ours or " ".join(str(failure).split())
    except (docker.errors.APIError, OSError) as error:
        return engine_reason(error)
    return None


def _proxies() -> dict[str, str]:
    found = {}
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        if value := os.environ.get(name) or os.environ.get(name.upper()):
            found[name] = value
    return found


def engine_reason(error: Exception) -> str:
    """Return in one line why the engine refused."""
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())


@contextmanager
def build_lock(progress: Progress) -> Iterator[None]:
    """Let one process of a user build at a time; the others wait for it."""
    path = Dirs.default().create().state / "images.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step("waiting for another process that builds images")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
