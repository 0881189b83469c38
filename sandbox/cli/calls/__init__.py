# SPDX-License-Identifier: Apache-2.0
"""Commands that make calls, and settle what became of them."""

__all__ = ["plain_run"]
