# SPDX-License-Identifier: Apache-2.0
"""What is said where a thing is no longer what a person was shown."""

CHANGED = "nothing was done: it is another by now than what you were shown; this is how it stands"
