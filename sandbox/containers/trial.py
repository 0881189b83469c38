# SPDX-License-Identifier: Apache-2.0
"""Tries programs of the host in an image: they may need libraries that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import docker

from sandbox.containers.endpoints import connect
from sandbox.containers.images import check_image
from sandbox.containers.plan import Bind
from sandbox.containers.probe import run_shown

TryProgram = Callable[[Sequence[Bind], Sequence[str], int], str]
"""Runs a program of a shown folder as a user; returns what it said where it failed, or nothing."""


def programs_in(tag: str, *, client: docker.DockerClient | None = None) -> TryProgram | None:
    """Return what tries a program of the host in an image; None where there is no such image.

    Without a client, one is looked for. Raises Unavailable where there is none.
    """
    found = client or connect()
    if check_image(found, tag):
        return None
    return lambda binds, argv, uid: run_shown(found, tag, binds, argv, uid)
