# SPDX-License-Identifier: Apache-2.0
"""The emergency stop: the latch, the sweep over cells and agents, and its answer."""
