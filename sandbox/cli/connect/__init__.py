# SPDX-License-Identifier: Apache-2.0
"""Commands by which agents and browsers come in: connect, hook, mcp, serve, ui."""
