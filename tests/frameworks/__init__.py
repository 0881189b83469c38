# SPDX-License-Identifier: Apache-2.0
"""Frameworks of agents, each as its package comes from PyPI: `make test-frameworks`."""
