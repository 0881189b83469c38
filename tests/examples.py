# SPDX-License-Identifier: Apache-2.0
"""How many examples a property test tries."""

from __future__ import annotations

import os

QUICK = os.environ.get("LOCKGATE_TESTS_QUICK") == "1"
"""Whether only tests run that need neither a process nor much time (`make quick`)."""
FEW = 10


def examples(count: int) -> int:
    """Return how many examples to try: all of them, or a few in `make quick`."""
    return min(count, FEW) if QUICK else count
