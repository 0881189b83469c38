# SPDX-License-Identifier: Apache-2.0
"""Commands that agents' configuration names: connect, hook, mcp."""
