# SPDX-License-Identifier: Apache-2.0
"""The two programs of a cell, runner and keeper, as the supervisor talks to them."""

__all__ = ["clock", "handing", "keeper_side", "outcomes", "runner_side"]
