# SPDX-License-Identifier: Apache-2.0
"""Watches a layer while its call runs."""

__all__ = ["client"]
