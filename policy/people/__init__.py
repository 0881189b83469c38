# SPDX-License-Identifier: Apache-2.0
"""What an approval covers, and what a report says."""

__all__ = ["approval", "reports", "shortfall"]
