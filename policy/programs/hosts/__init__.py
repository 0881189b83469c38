# SPDX-License-Identifier: Apache-2.0
"""Readers of programs that reach further: network, packages, services, wrappers."""

__all__ = ["launchers", "network", "packages", "services", "system", "windows", "wrappers"]
