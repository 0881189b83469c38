# SPDX-License-Identifier: Apache-2.0
"""Hooks of coding agents: each tool call asks here first, in the agent's own dialect."""
