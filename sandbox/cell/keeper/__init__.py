# SPDX-License-Identifier: Apache-2.0
"""The keeper's program: mounts, views, what earlier keepers left."""
