# SPDX-License-Identifier: Apache-2.0
"""Which paths are protected, obeyed by the host or secret; settings judged by content."""

__all__ = ["formats", "git_settings", "path_rules", "paths", "printable"]
