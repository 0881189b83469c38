# SPDX-License-Identifier: Apache-2.0
"""The one module that makes, inspects, starts, attaches and removes containers.

Blocking; callers run it in threads. It carries out plans (see sandbox.plan) and decides nothing.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import docker
import docker.errors
import requests

from sandbox.errors import ImageProblem, NotEnforced, Unavailable
from sandbox.plan import LABEL_CELL, LABEL_STATE, ContainerPlan, body, gaps

REMOVE_SECONDS = 10
"""How long a container that was killed may take to go."""


class Engine:
    """A container engine, and the containers of one state folder in it."""

    def __init__(self, client: docker.DockerClient, state: str) -> None:
        self._api: Any = client.api
        self.state = state
        """Value of the label that marks every container of this state folder."""

    def image_id(self, tag: str) -> str:
        """Return the id that a tag names now. Raises ImageProblem."""
        try:
            return str(self._api.inspect_image(tag)["Id"])
        except docker.errors.ImageNotFound:
            raise ImageProblem(f"image `{tag}` is missing; run `lockgate image build`") from None
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def local(self, kernel: str) -> bool:
        """Whether the engine runs on this very kernel (not in a virtual machine)."""
        return bool(self._api.info().get("KernelVersion") == kernel)

    def create(self, plan: ContainerPlan) -> str:
        """Create a container and compare it with its plan; return its id, unstarted.

        Raises NotEnforced (the container is removed), ImageProblem, Unavailable.
        """
        try:
            identity = str(self._api.create_container_from_config(body(plan), plan.name)["Id"])
        except docker.errors.ImageNotFound:
            raise ImageProblem(f"image `{plan.image}` is missing") from None
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None
        # INVARIANT (P6): the plan is ours, but the engine built the container: believe what exists.
        try:
            missing = gaps(plan, self._api.inspect_container(identity))
        except BaseException:
            self.remove(identity)
            raise
        if missing:
            self.remove(identity)
            raise NotEnforced(
                f"container `{plan.name}` differs from its plan, removed: {', '.join(missing)}"
            )
        return identity

    def attach(self, identity: str) -> tuple[socket.socket, Any]:
        """Return the container's attach socket and the object that keeps it open."""
        try:
            stream = self._api.attach_socket(
                identity, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            )
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None
        return getattr(stream, "_sock", stream), stream

    def start(self, identity: str) -> None:
        """Start a created container."""
        try:
            self._api.start(identity)
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def remove(self, identity: str) -> None:
        """Kill and remove a container, and wait until it is gone; one that is gone is fine."""
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.kill(identity)
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.remove_container(identity, force=True, v=False)
        # A removal that the engine began by itself (AutoRemove) refuses a second one: wait for it.
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.wait(identity, timeout=REMOVE_SECONDS, condition="removed")

    def remove_volume(self, name: str) -> None:
        """Remove a volume that no container uses; one that is used or gone is fine."""
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.remove_volume(name)

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        """Return the containers of this state folder, running or not, with these labels."""
        wanted = [f"{LABEL_STATE}={self.state}", *(f"{k}={v}" for k, v in labels.items())]
        try:
            return list(self._api.containers(all=True, filters={"label": wanted}))
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def cells(self) -> set[str]:
        """Return the names of the cells that exist."""
        return {c["Labels"].get(LABEL_CELL, "") for c in self.containers()}


def _unavailable(error: Exception) -> Unavailable:
    text = getattr(error, "explanation", None) or str(error)
    return Unavailable(f"the container engine refused: {' '.join(str(text).split())}")
