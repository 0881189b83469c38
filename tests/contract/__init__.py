# SPDX-License-Identifier: Apache-2.0
"""One list of behaviours, run on the fakes and on the real thing."""
