# SPDX-License-Identifier: Apache-2.0
"""The runner: starts commands in the cell, streams output, ends processes."""

__all__ = ["call_host", "process"]
