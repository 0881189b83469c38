# SPDX-License-Identifier: Apache-2.0
"""What agents' own tools edit on the host: kept before, recorded after."""

__all__ = ["keeping", "several", "tool_use"]
