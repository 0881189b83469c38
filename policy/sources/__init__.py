# SPDX-License-Identifier: Apache-2.0
"""Policy files: their document, schema, precedence, and what an untrusted one may say."""

__all__ = ["document", "examples", "precedence", "schema"]
