# SPDX-License-Identifier: Apache-2.0
"""Logs a call in at hosts: what a gateway adds to requests, and where its secrets come from."""

__all__ = ["authority", "broker", "exchange", "host_secrets", "reaches", "sealed", "uses"]
