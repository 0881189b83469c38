# SPDX-License-Identifier: Apache-2.0
"""What a project brings along on this host: toolchains, and a repository that lies elsewhere."""

__all__ = [
    "git_elsewhere",
    "git_filters",
    "needed_toolchains",
    "toolchain_masks",
    "toolchain_trial",
    "toolchains",
]
