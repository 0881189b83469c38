# SPDX-License-Identifier: Apache-2.0
"""The commands of `lockgate`, a module per group; each is imported when it is used."""
