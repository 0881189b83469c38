# SPDX-License-Identifier: Apache-2.0
"""Processes of this host: table, sweep, control groups; who is at a socket, and the loopback."""

__all__ = [
    "cgroup",
    "loopback",
    "lost",
    "passes",
    "peer_process",
    "scarcity",
    "seen",
    "supervisor_process",
    "sweep",
    "table",
    "targets",
]
