# SPDX-License-Identifier: Apache-2.0
"""What a person's word is bound to."""
