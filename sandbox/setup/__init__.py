# SPDX-License-Identifier: Apache-2.0
"""What must be on this machine: packages, images and runtimes, found or made."""
