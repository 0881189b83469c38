# SPDX-License-Identifier: Apache-2.0
"""The zone of this host is found by name, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.host.time_zone import find_time_zone

LEADS = {
    "a zone": ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
    "a zone of three names": (
        "/usr/share/zoneinfo/America/Argentina/Ushuaia",
        "America/Argentina/Ushuaia",
    ),
    "UTC": ("/usr/share/zoneinfo/Etc/UTC", None),
}


@pytest.mark.parametrize(("target", "name"), LEADS.values(), ids=LEADS)
def test_the_link_of_the_host_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, name: str | None
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    place = tmp_path / target.removeprefix("/usr/share/")
    place.parent.mkdir(parents=True)
    place.touch()
    (tmp_path / "localtime").symlink_to(place)
    assert find_time_zone(tmp_path / "localtime") == name


def test_without_a_link_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TZ", raising=False)
    assert find_time_zone(tmp_path / "none") is None


VALUES = {
    "a name": ("Asia/Tokyo", "Asia/Tokyo"),
    "a name with a colon": (":Asia/Tokyo", "Asia/Tokyo"),
    "a path": ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"),
    "a rule": ("CET-1CEST", None),
    "a way out": ("../../etc/passwd", None),
    "no zone": ("Europe/Atlantis", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("value", "name"), VALUES.values(), ids=VALUES)
def test_the_variable_comes_first(
    monkeypatch: pytest.MonkeyPatch, value: str, name: str | None
) -> None:
    monkeypatch.setenv("TZ", value)
    assert find_time_zone() == name
