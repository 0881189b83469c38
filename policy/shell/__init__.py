# SPDX-License-Identifier: Apache-2.0
"""Reads shell text: the walker over its syntax, builtins, redirections, pipelines, state."""

__all__ = [
    "builtins",
    "compound",
    "held_scripts",
    "interpreter",
    "leaks",
    "reading",
    "recursion",
    "redirects",
    "state",
]
