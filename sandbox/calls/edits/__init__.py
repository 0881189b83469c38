# SPDX-License-Identifier: Apache-2.0
"""Edits of agents' own tools on the host: copies are kept before, changes recorded after."""

__all__ = ["keeping", "kept_contents", "several", "tool_use"]
