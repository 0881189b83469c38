# SPDX-License-Identifier: Apache-2.0
"""An engine that was told to remove a container by itself refused a second removal, and ending a
cell returned while its containers still ran."""

from __future__ import annotations

from tests.container.lab import Lab


def test_when_a_cell_is_ended_its_containers_are_gone(lab: Lab) -> None:
    lab.sh("setsid sleep 60 & true")
    identities = [str(one.id) for one in lab.containers()]
    lab.run(lab.supervisor._live.pool.end_all())  # type: ignore[union-attr]
    known = [str(one["Id"]) for one in lab.client.api.containers(all=True)]
    assert len(identities) == 2
    assert not set(identities) & set(known)
