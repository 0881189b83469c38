# SPDX-License-Identifier: Apache-2.0
"""The door for programs that speak HTTP: the operations of a supervisor, what is recorded, events.

It decides nothing. Whose word counts is looked up in the kernel, as at every door (`visitors`).
"""

__all__ = ["app", "doorway", "problems", "resources", "serving", "table", "taken", "tokens"]
