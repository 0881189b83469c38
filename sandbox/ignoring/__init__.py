# SPDX-License-Identifier: Apache-2.0
"""What git ignores by rules that a person made, and what repositories track (see `ignored`)."""
