# SPDX-License-Identifier: Apache-2.0
"""Agents under watch: who they are, where their processes are, and what they may use up."""
