# SPDX-License-Identifier: Apache-2.0
"""One call: its flow in `one_call`, its steps, what runs meanwhile, what all of it is made of."""

__all__ = ["call", "learning", "live", "one_call", "parts"]
