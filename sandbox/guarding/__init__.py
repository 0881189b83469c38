# SPDX-License-Identifier: Apache-2.0
"""The parts of the guard and of `verify`: what is protected, how it stands, what explains it."""
