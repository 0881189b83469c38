# SPDX-License-Identifier: Apache-2.0
"""Commands of the person who is asked: approvals, reports, trust."""
