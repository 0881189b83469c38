# SPDX-License-Identifier: Apache-2.0
"""What the engine does not remove at once is removed again; what it lists but does not know is not
there."""

from __future__ import annotations

from typing import Any, cast

import docker
import docker.errors
import pytest
import requests

from sandbox.containers.engine import Engine


def _refusal(status: int) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return kind("refused", response=response)


class Api:
    """An engine whose answers to a removal, and to waiting for one, are given one by one."""

    def __init__(self, removals: list[int], waits: list[Any]) -> None:
        self.removals, self.waits = removals, waits
        self.known: set[str] = set()
        self.listed: list[dict[str, Any]] = []

    def kill(self, _identity: str) -> None:
        raise _refusal(409)  # it runs no more

    def remove_container(self, _identity: str, **_: Any) -> None:
        status = self.removals.pop(0)
        if status != 204:
            raise _refusal(status)

    def wait(self, _identity: str, **_: Any) -> dict[str, Any]:
        answer = self.waits.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"StatusCode": 0, "Error": answer}

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return self.listed

    def inspect_container(self, identity: str) -> dict[str, str]:
        if identity not in self.known:
            raise _refusal(404)
        return {"Id": identity}


def _engine(api: Api) -> Engine:
    client = docker.DockerClient.__new__(docker.DockerClient)
    client.api = cast(Any, api)
    return Engine(client, "state")


BUSY = {"Message": "unable to remove filesystem: device or resource busy"}
REMOVALS: dict[str, tuple[list[int], list[Any]]] = {
    "at once": ([204], [None]),
    "it is gone already": ([404], []),
    "by the engine itself": ([409], [None]),
    "by the engine itself, before anybody waits": ([409], [_refusal(404)]),
    "again, as the engine's own removal failed": ([409, 204], [BUSY, None]),
    "again, as a mount was busy": ([500, 500, 204], [None]),
}


@pytest.mark.parametrize("removals, waits", REMOVALS.values(), ids=REMOVALS)
def test_a_container_is_removed_until_it_is_gone(removals: list[int], waits: list[Any]) -> None:
    api = Api([*removals], [*waits])
    _engine(api).remove("c1")
    assert (api.removals, api.waits) == ([], [])  # every answer was asked for, and no more


def test_what_is_listed_but_not_known_is_not_there() -> None:
    api = Api([], [])
    api.known = {"c1", "c2"}
    api.listed = [
        {"Id": "c1", "Names": ["/one"]},
        {"Id": "c2", "Names": None},
        {"Id": "c3", "Names": []},
    ]
    assert [one["Id"] for one in _engine(api).containers()] == ["c1", "c2"]
