# SPDX-License-Identifier: Apache-2.0
"""Containers: engine, plans, images, runtimes, the ledger of what runs."""

__all__ = [
    "apt",
    "endpoints",
    "engine",
    "images",
    "ledger",
    "plan",
    "probe",
    "progress",
    "runtimes",
    "trial",
]
