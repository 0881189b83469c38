# SPDX-License-Identifier: Apache-2.0
"""The audit log: written, chained, indexed, asked, mended, replayed under other rules."""
