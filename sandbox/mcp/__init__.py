# SPDX-License-Identifier: Apache-2.0
"""The MCP server: agents that speak the Model Context Protocol run their tools through Lockgate."""
