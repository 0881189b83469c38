# SPDX-License-Identifier: Apache-2.0
"""Processes of this host: table, sweep, control groups."""

__all__ = [
    "cgroup",
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
