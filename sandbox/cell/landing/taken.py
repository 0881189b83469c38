# SPDX-License-Identifier: Apache-2.0
"""What other landings took away while a call ran, where its layer puts something.

A file of the layer that took the place of one by a rename bears no trace of it. If another landing
removed that one meanwhile, the layer looks as if it created a file where none ever was: only the
records tell that somebody else's removal would be overruled without a word.

Runs in the keeper: standard library only, Python 3.9. Changes nothing.
"""

from __future__ import annotations

from ..journal.format import PUT, TAKE, Journal
from ..journal.vault import Vault
from ..overlay.layer import lies_in
from ..overlay.steps import Walk


def overruled(vault: Vault, walked: Walk) -> list[str]:
    """Return the paths that a walk puts anew, and that a landing since its opening took away.

    The call may have seen the removal, which cannot be told apart: then it conflicts for nothing.
    """
    if walked.since is None or not walked.puts:
        return []
    taken: set[str] = set()
    for record in vault.since(walked.since):
        taken |= _taken(record)
    taken -= walked.own
    return sorted(put.path for put in walked.puts if lies_in(put.path, taken))


def _taken(record: Journal) -> set[str]:
    """Return where nothing stands since the last run of a record, and something stood before."""
    away, back = (PUT, TAKE) if record.last.back else (TAKE, PUT)
    placed = {op.path for op in record.ops if op.action == back}
    found: set[str] = set()
    for op in record.ops:
        if op.action == away:
            found.add(op.path)
            found.update(f"{op.path}/{name}" for name in op.inner or ())
    return found - placed
