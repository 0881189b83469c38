# SPDX-License-Identifier: Apache-2.0
"""This user's folders, files, latch and small databases."""

__all__ = [
    "before_images",
    "dirs",
    "files",
    "latch",
    "login",
    "off_loop",
    "poll",
    "process_owner",
    "relaunch",
    "self_test",
    "sqlite",
    "text_files",
    "time_zone",
    "version",
    "xdg",
]
