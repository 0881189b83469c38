# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: gives integration tests a disposable cell. Imports nothing until used."""

from __future__ import annotations
