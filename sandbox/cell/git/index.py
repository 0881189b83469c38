# SPDX-License-Identifier: Apache-2.0
"""Git's index: what it lists, what it means, and the stat data that it remembers of each file.

`settle` sets right what an index remembers, after a landing and after an undo. `meaning` tells a
refresh of stat data, which is no change, from a change. `note_dropped` finds hidden files that
leave the index. The file itself is read in `gitformat`.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

from .dropped import note_dropped
from .index_format import Entry, Index, meaning, parse, serialise
from .places import Found, Place, found, is_index, look, meanings, places, read, work_tree
from .stat import settle

__all__ = [
    "Entry",
    "Found",
    "Index",
    "Place",
    "found",
    "is_index",
    "look",
    "meaning",
    "meanings",
    "note_dropped",
    "parse",
    "places",
    "read",
    "serialise",
    "settle",
    "work_tree",
]
