# SPDX-License-Identifier: Apache-2.0
"""One case per hole ever found."""
