# SPDX-License-Identifier: Apache-2.0
"""The name of the session in which `connect` tries a hook."""

from __future__ import annotations

SELF_TEST = "lockgate-self-test"
"""The session of the canaries that `connect` and `doctor` send; no agent is behind them."""
