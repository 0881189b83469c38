# SPDX-License-Identifier: Apache-2.0
"""Code that runs inside containers: the standard library only, and nothing of the host side."""
