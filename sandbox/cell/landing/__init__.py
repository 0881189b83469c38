# SPDX-License-Identifier: Apache-2.0
"""Lands, holds and undoes layers, in one workspace or several."""

__all__ = ["fates", "held", "held_actions", "land", "multi", "room", "settle", "spaces"]
