# SPDX-License-Identifier: Apache-2.0
"""These tests install large programs, so they run only when they are asked for."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("LOCKGATE_AGENT_TESTS") else ["test_*.py"]
