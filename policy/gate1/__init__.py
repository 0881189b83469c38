# SPDX-License-Identifier: Apache-2.0
"""Gate 1: decide(plan, context, policy) -> Decision; the second reading; advice."""

__all__ = ["decide", "relief"]
