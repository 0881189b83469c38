# SPDX-License-Identifier: Apache-2.0
"""Parts of gate 2, which judges what a call changed. Pure."""
