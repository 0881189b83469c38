# SPDX-License-Identifier: Apache-2.0
"""What everything costs and whether it holds under load, measured on this machine."""
