# SPDX-License-Identifier: Apache-2.0
"""Has an engine and gVisor on a bare machine."""

__all__ = ["bootstrap"]
