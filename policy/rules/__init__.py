# SPDX-License-Identifier: Apache-2.0
"""The language of rules: patterns, checks, tiers, and where a path lies."""

__all__ = ["locations", "matching", "reach", "schema", "tiers"]
