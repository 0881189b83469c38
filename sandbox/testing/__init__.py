# SPDX-License-Identifier: Apache-2.0
"""For tests of users: a cell as a pytest fixture, replays."""

__all__ = ["replay"]
