# SPDX-License-Identifier: Apache-2.0
"""What lies around gate 2: to what a person's word is bound, and how an undo is judged."""
