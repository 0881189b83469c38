# SPDX-License-Identifier: Apache-2.0
"""The supervisor process: its socket, the wire, its clients, and how it is started."""
