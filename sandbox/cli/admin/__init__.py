# SPDX-License-Identifier: Apache-2.0
"""Commands about the installation: audit, guard, system, verify, workspaces."""

__all__ = ["toolchains"]
