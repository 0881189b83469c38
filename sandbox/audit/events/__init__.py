# SPDX-License-Identifier: Apache-2.0
"""What a line of the record can say: one class per kind of record, and how lines are read. Pure.

Whoever writes makes one of these; whoever reads gets them from `reading`. Only what was given
stands in a line, in the order of the fields of its class.
"""

__all__ = ["agents", "calls", "follow_ups", "log", "people", "protected", "reading", "record"]
