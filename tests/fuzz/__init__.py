# SPDX-License-Identifier: Apache-2.0
"""Fuzzing of everything that reads what an agent wrote: `make fuzz`, or `python -m tests.fuzz`."""
