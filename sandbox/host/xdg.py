# SPDX-License-Identifier: Apache-2.0
"""Where the folders of one user's Lockgate are. Imports nothing but `os`, for the hook program."""

from __future__ import annotations

import os

NAME = "lockgate"
SOCKET = "supervisor.sock"
WEB_SOCKET = "http.sock"
POLICY_FILES = ("policy.yaml", "levels.yaml", "autonomy.yaml", "modes.yaml", "trust.yaml",
                "roles.yaml")  # fmt: skip
"""Files of the configuration folder that are read again when they change."""


def state() -> str:
    """Return the state folder."""
    return f"{_base('XDG_STATE_HOME', '.local/state')}/{NAME}"


def config() -> str:
    """Return the configuration folder."""
    return f"{_base('XDG_CONFIG_HOME', '.config')}/{NAME}"


def runtime() -> str:
    """Return the socket's folder: without a usable XDG_RUNTIME_DIR it lies in the state folder."""
    said = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = said.startswith("/") and os.path.isdir(said)  # noqa: PTH112
    return f"{said}/{NAME}" if usable else f"{state()}/run"


def _base(variable: str, otherwise: str) -> str:
    """Return what a variable names; one that holds no absolute path is ignored (XDG)."""
    said = os.environ.get(variable, "")
    home = os.path.expanduser("~")  # noqa: PTH111
    return said if said.startswith("/") else f"{home}/{otherwise}"
