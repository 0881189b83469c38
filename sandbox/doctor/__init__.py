# SPDX-License-Identifier: Apache-2.0
"""What this host enforces and what it does not: each check, and all of them together."""

__all__ = ["diagnose"]
