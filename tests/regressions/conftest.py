# SPDX-License-Identifier: Apache-2.0
"""Labs for regressions that need real cells."""

from __future__ import annotations

from tests.container.conftest import lab, make_lab, owner, weak

__all__ = ["lab", "make_lab", "owner", "weak"]
