# SPDX-License-Identifier: Apache-2.0
"""Who asks: levels, modes, trust, roles and reputation, and what they amount to."""

__all__ = [
    "actions",
    "agent_globs",
    "authority",
    "categories",
    "levels",
    "levels_schema",
    "modes",
    "reputation",
    "roles",
    "trust",
]
