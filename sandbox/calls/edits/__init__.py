# SPDX-License-Identifier: Apache-2.0
"""What agents' own tools edit on the host: kept before, recorded after; and what is kept, read."""

__all__ = ["keeping", "kept_contents", "several", "tool_use"]
