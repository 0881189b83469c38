# SPDX-License-Identifier: Apache-2.0
"""What the files of the catalog say, by the names under which it is looked up."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Self

from policy.programs import own_programs
from policy.programs.catalog_schema import (
    Carrier,
    CatalogFile,
    CodeCall,
    Pattern,
    Programs,
    Variable,
)
from policy.programs.forms import Forms

_VERSION = re.compile(r"(?<=[a-z])-?\d+(?:\.\d+)*$")
_GNU = re.compile(
    r"g(rm|rmdir|unlink|chmod|chown|chgrp|dd|shred|ls|cat|head|tail|tee|mkdir|truncate|sort|touch|ln"
    r"|wc|cut|date|readlink|realpath|stat|split|base64|env|nice|nohup|stdbuf|kill|xargs|uniq|tr|id)"
)
"""GNU's tools where the system has others of the same name."""


class CatalogTables:
    """Programs, variables and signs of danger; built once from `policy/catalog/*.yaml`."""

    def __init__(self, files: Sequence[CatalogFile]) -> None:
        self.entries: dict[str, Programs] = {}
        self.exact: dict[str, Variable] = {}
        self.globbed: list[tuple[str, Variable]] = []
        self.patterns: dict[str, list[tuple[re.Pattern[str], Pattern]]] = {}
        self.calls: dict[str, list[tuple[re.Pattern[str], CodeCall]]] = {}
        self.carriers: dict[str, list[Carrier]] = {}
        self.own: own_programs.Own = {}
        self.git_keys: tuple[str, ...] = ()
        """Settings of git that a policy file asks about."""
        self.doubtful = frozenset(name for file in files for name in file.doubtful)
        self.forms = Forms(form for file in files for form in file.forms)
        for file in files:
            for carrier in file.carriers:
                for name in carrier.programs:
                    self.carriers.setdefault(name, []).append(carrier)
            for entry in file.programs:
                for name in entry.programs:
                    self.entries[name] = entry
            for variable in file.variables:
                for name in variable.names:
                    if "*" in name:
                        self.globbed.append((name, variable))
                    else:
                        self.exact[name] = variable
            for sign in file.patterns:
                compiled = re.compile(sign.pattern, re.IGNORECASE | re.DOTALL)
                for language in sign.where:
                    self.patterns.setdefault(language, []).append((compiled, sign))
            for rule in file.calls:
                matcher = re.compile(rule.call)
                for language in rule.where:
                    self.calls.setdefault(language, []).append((matcher, rule))

    def with_own(self, added: tuple[own_programs.OwnProgram, ...]) -> Self:
        """Return a catalog that also knows what a person says of programs of their own."""
        made = copy.copy(self)
        made.own = own_programs.indexed(self.own, added)
        return made

    def with_git_keys(self, added: tuple[str, ...]) -> Self:
        """Return a catalog that also asks about settings of git (`section.*.key`)."""
        made = copy.copy(self)
        made.git_keys = (*self.git_keys, *(key.lower() for key in added))
        return made

    def lookup(self, name: str) -> Programs | None:
        """Return the entry of a program, whatever version its name carries."""
        return self.entries.get(self.known_as(name))

    def knows(self, name: str) -> bool:
        """Return whether a program has this name."""
        return self.lookup(name) is not None

    def known_as(self, name: str) -> str:
        """Return the name under which the catalog may hold a program."""
        plain = name.removesuffix(".exe")
        if plain in self.entries:
            return plain
        if (tool := _GNU.fullmatch(plain)) is not None:
            return tool[1]
        return _VERSION.sub("", plain)

    def variable(self, name: str) -> Variable | None:
        """Return what is known of a variable of the environment."""
        return self.exact.get(name) or next(
            (variable for wanted, variable in self.globbed if fnmatchcase(name, wanted)), None
        )
