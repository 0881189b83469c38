# SPDX-License-Identifier: Apache-2.0
"""Policy: decides whether a call may run (gate 1) and whether its changes may land (gate 2).

Pure: no input or output, no clock, no randomness. Imports nothing of `sandbox`.
"""
