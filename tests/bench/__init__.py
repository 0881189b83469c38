# SPDX-License-Identifier: Apache-2.0
"""Measures calls, stops and decisions; `make bench`."""
