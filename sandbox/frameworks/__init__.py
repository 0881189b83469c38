# SPDX-License-Identifier: Apache-2.0
"""Doors for frameworks of agents that run in Python: each is named in the framework's own settings.

They decide nothing: each hands what its framework wants to run to a client of the supervisor. A
framework's package is imported when it is used, never before.
"""

__all__: list[str] = []
