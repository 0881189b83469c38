# SPDX-License-Identifier: Apache-2.0
"""Which folders of a host are toolchains: those of the table, whole components, and no other."""

from __future__ import annotations

import pytest

from policy.people.toolchains import Toolchains

HOME = "/home/ann"
TABLE = Toolchains.default()
FITS = {
    "pyenv": ("/home/ann/.pyenv/versions/3.12.1", "pyenv"),
    "uv": ("/home/ann/.local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu", "uv"),
    "conda's own": ("/home/ann/miniconda3", "conda"),
    "an environment of conda": ("/home/ann/miniforge3/envs/work", "conda"),
    "fnm": ("/home/ann/.local/share/fnm/node-versions/v22.3.0/installation", "fnm"),
    "a build of one's own": ("/opt/python3.12", "opt-python"),
    "one of manylinux": ("/opt/python/cp312-cp312", "opt-python"),
    "an unpacked node": ("/opt/node-v22.3.0-linux-x64", "opt-node"),
    "go": ("/usr/local/go", "go"),
    "rustup": ("/home/ann/.rustup/toolchains/stable-x86_64-unknown-linux-gnu", "rustup"),
}
MISSES = {
    "the home": HOME,
    "an application in Node": "/opt/node-backend",
    "an application with an environment": "/opt/python3-app",
    "another's kit": "/home/ann/sdk/google-cloud-sdk",
    "keys": "/home/ann/.ssh",
    "the root": "/",
    "nothing": "",
    "above": "/home/ann/.pyenv/versions",
    "below": "/home/ann/.pyenv/versions/3.12.1/bin",
    "a hidden name": "/home/ann/.pyenv/versions/.ssh",
    "up and out": "/home/ann/.pyenv/versions/..",
    "another's home": "/home/bob/.pyenv/versions/3.12.1",
    "a second line": "/home/ann/.pyenv/versions/3.12.1\n/home/ann/.ssh",
    "the programs of cargo, with its tokens": "/home/ann/.cargo",
}


@pytest.mark.parametrize("path, wanted", FITS.values(), ids=FITS)
def test_a_toolchain_is_known(path: str, wanted: str) -> None:
    found = TABLE.of(path, HOME)
    assert found is not None
    assert found.id == wanted
    assert TABLE.holding(f"{path}/bin/x", HOME) == path


@pytest.mark.parametrize("path", MISSES.values(), ids=MISSES)
def test_nothing_else_is_one(path: str) -> None:
    assert TABLE.of(path, HOME) is None


def test_what_is_in_no_toolchain_is_held_by_none() -> None:
    assert TABLE.holding("/usr/bin/python3", HOME) is None
    assert TABLE.holding("/home/ann/.ssh/bin", HOME) is None
