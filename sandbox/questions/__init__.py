# SPDX-License-Identifier: Apache-2.0
"""The question that is put to gate 1: one plan and one context, however a call came in."""

__all__ = ["contexts", "offline", "plans"]
