# SPDX-License-Identifier: Apache-2.0
"""The one module that makes, inspects, starts, attaches and removes containers.

Blocking; callers run it in threads. It carries out plans (see sandbox.containers.plan) and decides
nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import time
from typing import Any

import docker
import docker.errors
import requests

from sandbox.containers.images import building
from sandbox.containers.ledger import ContainerNotes, Note
from sandbox.containers.plan import (
    LABEL_AGENT,
    LABEL_CELL,
    LABEL_ROLE,
    LABEL_STATE,
    VIEWS_OPTIONS,
    ContainerPlan,
    body,
)
from sandbox.containers.plan_gaps import gaps
from sandbox.errors import ImageProblem, NotEnforced, Stopped, Unavailable

REMOVE_SECONDS = 10
"""How long a container that was killed may take to go."""
REMOVE_AGAIN_SECONDS = 0.2
"""How long after a removal that failed the next is tried."""
CONFLICT = 409
"""What the engine answers where a container is being removed already."""
HALT_SECONDS = 60
"""How long a container that was killed may take to end, before its call fails."""


class Engine:
    """A container engine, and the containers of one state folder in it."""

    def __init__(
        self, client: docker.DockerClient, state: str, notes: ContainerNotes | None = None
    ) -> None:
        """`notes` are kept of each container, and hold the stop latch that it starts under."""
        self._api: Any = client.api
        self.state = state
        """Value of the label that marks every container of this state folder."""
        self._notes = notes
        self._agents: dict[str, str] = {}
        self._near: bool | None = None

    def image_id(self, tag: str) -> str:
        """Return the id that a tag names now. Raises ImageProblem."""
        try:
            return str(self._api.inspect_image(tag)["Id"])
        except docker.errors.ImageNotFound:
            raise ImageProblem(f"image `{tag}` is missing; run `{building(tag)}`") from None
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def local(self, kernel: str) -> bool:
        """Whether the engine runs on this very kernel (not in a virtual machine)."""
        if self._near is None:
            self._near = bool(self._api.info().get("KernelVersion") == kernel)
        return self._near

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
            self._note(plan, identity)
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

    def attach(self, identity: str) -> socket.socket:
        """Return the container's attach stream, as a socket that is the caller's alone.

        The client's own objects for it hold each other in a circle: without a second descriptor
        it would stay open, long after it was closed, until Python looks for such circles.
        """
        try:
            stream = self._api.attach_socket(
                identity, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
            )
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None
        try:
            if isinstance(stream, ssl.SSLSocket):
                raise Unavailable(
                    "an engine behind TLS cannot be used: name one by its unix socket"
                )
            return socket.socket(fileno=os.dup(stream.fileno()))
        finally:
            stream._response.close()
            stream.close()

    def start(self, identity: str) -> None:
        """Start a created container. Raises Stopped; then it is removed, and nothing of it runs."""
        # INVARIANT (P10, "no late start"): the latch is looked at before and after, so that a stop
        # which did not see this container is seen by it.
        self._check_latch(identity)
        try:
            self._api.start(identity)
        except (docker.errors.APIError, requests.RequestException) as error:
            self._check_latch(identity)  # a stop that removed it says why
            raise _unavailable(error) from None
        self._check_latch(identity)

    def kill(self, identity: str) -> None:
        """Kill a container and do not wait; one that is gone or has ended is fine."""
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.kill(identity)

    def remove(self, identity: str) -> None:
        """Kill and remove a container, and wait until it is gone; one that is gone is fine."""
        self.kill(identity)
        until = time.monotonic() + REMOVE_SECONDS
        while not self._try_removal(identity) and time.monotonic() < until:
            time.sleep(REMOVE_AGAIN_SECONDS)
        self._agents.pop(identity, None)
        if self._notes is not None:
            self._notes.remove(identity)

    def _try_removal(self, identity: str) -> bool:
        """Remove a killed container; return whether there is nothing more to be done about it.

        A removal that the engine began by itself (AutoRemove) refuses a second one, so it is waited
        for. One that failed, as where a mount was busy for a moment, leaves the container "Dead"
        until somebody removes it again.
        """
        try:
            self._api.remove_container(identity, force=True, v=False)
        except docker.errors.NotFound:
            return True
        except docker.errors.APIError as error:
            if error.status_code != CONFLICT:
                return False
        except requests.RequestException:
            return True  # the engine is gone
        try:
            ended = self._api.wait(identity, timeout=REMOVE_SECONDS, condition="removed")
        except docker.errors.NotFound:
            return True
        except (docker.errors.APIError, requests.RequestException):
            return False
        return not ended.get("Error")

    def halt(self, identity: str) -> None:
        """Kill a container and wait until nothing of it runs; its removal is not waited for.

        Raises Unavailable unless that is certain.
        """
        self.kill(identity)
        try:
            self._api.wait(identity, timeout=HALT_SECONDS, condition="not-running")
        except docker.errors.NotFound:
            return
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def make_views(self, name: str, labels: dict[str, str]) -> str:
        """Make the volume for a keeper's views; return where it is for the engine."""
        try:
            made = self._api.create_volume(name, "local", dict(VIEWS_OPTIONS), labels)
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None
        if made.get("Options") != VIEWS_OPTIONS:
            raise NotEnforced(f"volume `{name}` differs from its plan: Options")
        return str(made["Mountpoint"])

    def volumes(self) -> list[dict[str, Any]]:
        """Return the volumes of this state folder that carry its label: those of views."""
        wanted = {"label": f"{LABEL_STATE}={self.state}"}
        try:
            return list(self._api.volumes(filters=wanted)["Volumes"] or ())
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def info(self) -> dict[str, Any]:
        """Return what the engine says of itself."""
        try:
            return dict(self._api.info())
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None

    def remove_volume(self, name: str) -> None:
        """Remove a volume that no container uses; one that is used or gone is fine."""
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            self._api.remove_volume(name)

    def containers(self, **labels: str) -> list[dict[str, Any]]:
        """Return the containers of this state folder, running or not, with these labels."""
        wanted = [f"{LABEL_STATE}={self.state}", *(f"{k}={v}" for k, v in labels.items())]
        try:
            listed = list(self._api.containers(all=True, filters={"label": wanted}))
        except (docker.errors.APIError, requests.RequestException) as error:
            raise _unavailable(error) from None
        return [one for one in listed if one.get("Names") or self._is_there(one["Id"])]

    def _is_there(self, identity: str) -> bool:
        """Whether the engine knows a container that it lists.

        Docker's list can keep one that was removed just as it ended ("Dead", without a name), until
        the engine starts again; there is nothing of it that could be removed.
        """
        try:
            self._api.inspect_container(identity)
        except docker.errors.NotFound:
            return False
        except (docker.errors.APIError, requests.RequestException):
            return True
        return True

    def cells(self) -> set[str]:
        """Return the names of the cells that exist."""
        return {c["Labels"].get(LABEL_CELL, "") for c in self.containers()}

    def _note(self, plan: ContainerPlan, identity: str) -> None:
        if self._notes is None:
            return
        labels = dict(plan.labels)
        agent = self._agents[identity] = labels.get(LABEL_AGENT, "")
        name, role = labels.get(LABEL_CELL, plan.name), labels.get(LABEL_ROLE, "")
        try:
            near = self.local(os.uname().release)
            self._notes.add(Note(identity, name, role, agent, near))
        except OSError as error:
            raise Unavailable(
                f"container `{plan.name}` cannot be noted: {error.strerror}"
            ) from None

    def _check_latch(self, identity: str) -> None:
        if self._notes is None:
            return
        try:
            self._notes.check(self._agents.get(identity, ""))
        except Stopped:
            self.remove(identity)
            raise


def _unavailable(error: Exception) -> Unavailable:
    text = getattr(error, "explanation", None) or str(error)
    return Unavailable(f"the container engine refused: {' '.join(str(text).split())}")
