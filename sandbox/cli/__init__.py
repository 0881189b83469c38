# SPDX-License-Identifier: Apache-2.0
"""The command line."""

__all__ = ["options", "said", "terminal"]
