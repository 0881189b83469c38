# SPDX-License-Identifier: Apache-2.0
"""Closed forms of calls that do less than their program can: those that only look, and those that
fail by themselves in a cell, which has no service of the host, and a network by a right only.

Pure. A form is an expression for all arguments of a call; an argument of which a part is not known
fits none. The reader of the program still looks at the call, with a milder word for the program
itself: what it finds forbidden stays forbidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from policy.programs.catalog_schema import Entry, Form
from policy.shell.state import Call
from policy.values.partial import shown, unknown

EntryT = TypeVar("EntryT", bound=Entry)
_BLANK = re.compile(r"\s")
_WORDS = {
    "<word>": r"(?:[^\s-]\S*+ )",
    "<words>": r"(?:[^\s-]\S*+ )*+",
    "<name>": r"(?:[A-Za-z]\w*+(?:[.-]\w++)*+ )",
    "<ref>": r"(?:(?!\.{1,2} )[\w#@][^\s*?\[:]*+(?<!/)(?<!\.[A-Za-z])(?<!\.[A-Za-z]{2})"
    r"(?<!\.[A-Za-z]{3})(?<!\.[A-Za-z]{4})(?<!\.[A-Za-z]{5})(?<!\.[A-Za-z]{6}) )",
}
"""`<ref>` is a word that can hardly be the name of a file: git takes either."""
_MOST = 64
"""Words that a form can have."""


class Forms:
    """The forms of all programs; a program with a verb (`git fetch`) has forms of its own."""

    def __init__(self, forms: Iterable[Form]) -> None:
        self._forms: dict[str, list[tuple[re.Pattern[str], Form]]] = {}
        self._made: dict[tuple[int, int], Entry] = {}
        for form in forms:
            wanted = re.compile("|".join(f"(?:{_written(one)})" for one in form.forms))
            for name in form.programs:
                self._forms.setdefault(name, []).append((wanted, form))

    def milder(self, call: Call, entry: EntryT) -> EntryT:
        """Return the entry as it is for this call."""
        found = self._forms.get(call.name)
        if (
            found is None
            or len(call.args) > _MOST
            or any(unknown(argument) for argument in call.args)
        ):
            return entry
        text = "".join(_BLANK.sub("·", shown(argument)) + " " for argument in call.args)
        for wanted, form in found:
            if wanted.fullmatch(text):
                return self._as(entry, form)
        return entry

    def _as(self, entry: EntryT, form: Form) -> EntryT:
        made = self._made.get((id(entry), id(form)))
        if made is None:
            writes = entry.writes and form.writes
            changed = {"tier": form.tier, "rule": form.rule or entry.rule, "because": form.because,
                       "writes": writes, "uses": {**entry.uses, **form.uses}}  # fmt: skip
            made = self._made[id(entry), id(form)] = entry.model_copy(update=changed)
        return made  # type: ignore[return-value]  # a copy of the entry


def _written(form: str) -> str:
    for name, expression in _WORDS.items():
        form = form.replace(name, expression)
    return form
