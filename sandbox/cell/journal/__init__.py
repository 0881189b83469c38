# SPDX-License-Identifier: Apache-2.0
"""The journal of a landing, and how its steps are applied and taken back."""

__all__ = ["apply", "format", "own_edits", "planning", "removal", "vault"]
