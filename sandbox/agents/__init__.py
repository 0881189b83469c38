# SPDX-License-Identifier: Apache-2.0
"""Agents: their registry, budgets, reputation, declared names, and who speaks."""

__all__ = [
    "allowed",
    "budget_keeper",
    "declared",
    "peer",
    "registering",
    "registry",
    "reputation",
    "run",
    "told_sessions",
    "view",
]
