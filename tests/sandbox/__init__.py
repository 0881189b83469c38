# SPDX-License-Identifier: Apache-2.0
"""Tests of the enforcing half, with fakes."""
