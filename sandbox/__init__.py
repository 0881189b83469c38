# SPDX-License-Identifier: Apache-2.0
"""The enforcing half: cells, transactions, the supervisor and its front doors."""
