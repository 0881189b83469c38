# SPDX-License-Identifier: Apache-2.0
"""Tests with real containers."""
