# SPDX-License-Identifier: Apache-2.0
"""The way out of a cell, by name: the gateway of one call, and the host's package indexes."""

__all__ = ["book", "carrier", "ends", "gateway", "indexes", "ports", "traffic", "trust"]
