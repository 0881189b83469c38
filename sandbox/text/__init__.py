# SPDX-License-Identifier: Apache-2.0
"""Text for terminals and records: escaping and redaction."""

__all__ = ["durations", "json_text", "plain", "redaction", "terminal", "unified"]
