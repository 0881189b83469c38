# SPDX-License-Identifier: Apache-2.0
"""What arguments and variables name beside a program's operands: files, commands."""

__all__ = ["named_commands", "secret_files", "written_files"]
