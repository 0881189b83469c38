# SPDX-License-Identifier: Apache-2.0
"""The supervisor's process: its socket and connections."""
