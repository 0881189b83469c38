# SPDX-License-Identifier: Apache-2.0
"""Settings of this user's Lockgate."""

__all__ = ["budgets", "channels", "guard", "settings"]
