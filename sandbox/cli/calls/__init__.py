# SPDX-License-Identifier: Apache-2.0
"""Commands that make calls, and settle what became of them."""
