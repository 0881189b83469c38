# SPDX-License-Identifier: Apache-2.0
"""The runner: starts commands in the cell, streams output, ends processes."""

__all__ = ["apply_patch", "call_host", "process"]
