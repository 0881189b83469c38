# SPDX-License-Identifier: Apache-2.0
"""The real command lines of coding agents, driven offline: `make test-agents`."""
