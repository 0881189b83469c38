# SPDX-License-Identifier: Apache-2.0
"""Read a policy file strictly.

Pure: a text comes in, a `Document` goes out, or a PolicyError with file, line and what to do. Keys
that are not known, rules without a reason or an example, and rules without effect are refused;
`examples` runs the examples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from policy.model import Tier
from policy.rules.matching import Rule
from policy.sources.schema import SECTIONS, PolicyDocument
from policy.tools.dialects import AgentTools, split_name
from policy.values import validation_text
from policy.values.strict_yaml import PolicyError, line_of, parse

MOST_CHARACTERS = 1_000_000
"""Characters of one policy file."""
_TIERS = list(Tier)


@dataclass(frozen=True, eq=False)
class Document:
    """A policy file that was read."""

    name: str
    """Its path, for messages."""
    text: str
    content: PolicyDocument
    lines: dict[str, int]
    """Rule -> the line where it begins."""

    @property
    def digest(self) -> str:
        """The SHA-256 of its text; trust is bound to it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def place(self, rule: str) -> str:
        """Return `file:line` of a rule, or the file."""
        line = self.lines.get(rule)
        return f"{self.name}:{line}" if line else self.name


def read_document(text: str, name: str) -> Document:
    """Return a policy file's text as a document. Raises PolicyError."""
    if len(text) > MOST_CHARACTERS:
        raise PolicyError(f"{name}: it is longer than {MOST_CHARACTERS} characters; part it")
    try:
        _refuse_aliases(text, name)
        data = parse(text, name)
        if data is None:
            data = {}
        if not isinstance(data, dict):
            raise PolicyError(f"{name}:1: it is no mapping; write `commands:` or another key first")
        content = PolicyDocument.model_validate(data)
    except ValidationError as error:
        raise PolicyError(_first(error, data, text, name)) from None
    except RecursionError:
        raise PolicyError(f"{name}: it nests too deeply") from None
    except (ValueError, yaml.YAMLError) as error:
        raise PolicyError(f"{name}: {str(error).splitlines()[0]}") from None
    nodes = _Lines(text, name)
    nodes.refuse(_mistyped(data, content))
    nodes.refuse(_unexplained(content))
    nodes.refuse(_twice(content))
    nodes.refuse(_without_effect(content))
    return Document(name, text, content, nodes.rules(content))


def _refuse_aliases(text: str, name: str) -> None:
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.AliasEvent):
                mark = event.start_mark
                place = f"{name}:{mark.line + 1}" if mark else name
                raise PolicyError(f"{place}: `*{event.anchor}`: write it out, not by alias")
    except yaml.YAMLError:
        return  # `parse` says it better


def _first(error: ValidationError, data: Any, text: str, name: str) -> str:
    """Return the first mistake in one line: file, line, rule, key and what is wrong."""
    first = validation_text.first(error)
    path = [part for part in first["loc"] if part != "function-after"]
    place = f"{name}:{line_of(text, path) or 1}"
    rule = ""
    if len(path) > 1 and path[0] in SECTIONS and isinstance(path[1], int):
        said = data[path[0]][path[1]]
        if isinstance(said, dict) and isinstance(said.get("id"), str):
            rule = f"rule `{said['id']}`: "
            path = path[2:]
    message = validation_text.worded(first, path)
    message = message.removeprefix(rule.removesuffix(": ") + " ") if rule else message
    if first["type"] == "extra_forbidden":
        message += "; see `lockgate policy schema`"
    return f"{place}: {rule}{message}"


Objection = tuple[tuple[str | int, ...], str]
"""Where in the file, and what is wrong."""


class _Lines:
    """Knows the lines of one file."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name

    def refuse(self, objections: Iterable[Objection]) -> None:
        """Raise PolicyError for the first objection."""
        for path, message in objections:
            raise PolicyError(f"{self._name}:{line_of(self._text, path) or 1}: {message}")

    def rules(self, content: PolicyDocument) -> dict[str, int]:
        """Return the line of each rule."""
        root = yaml.compose(self._text, Loader=yaml.CSafeLoader)
        found: dict[str, int] = {}
        for key, node in root.value if isinstance(root, yaml.MappingNode) else ():
            found.setdefault(key.value, key.start_mark.line + 1)
            if key.value not in SECTIONS or not isinstance(node, yaml.SequenceNode):
                continue
            for rule, item in zip(getattr(content, key.value), node.value, strict=False):
                found[rule.id] = item.start_mark.line + 1
        return found


def _numbered(content: PolicyDocument) -> Iterator[tuple[str, int, Any]]:
    for section in SECTIONS:
        for at, rule in enumerate(getattr(content, section)):
            yield section, at, rule


def _mistyped(data: Any, content: PolicyDocument) -> Iterator[Objection]:
    """Yield a number that was read from something else."""
    found = validation_text.mistyped(data, content)
    if found is not None:
        yield found[0], f"`{'.'.join(map(str, found[0]))}`: {found[1]}"


def _unexplained(content: PolicyDocument) -> Iterator[Objection]:
    """Yield rules without a reason or without an example that must match."""
    for section, at, rule in _numbered(content):
        if not rule.because.strip():
            yield (section, at), f"rule `{rule.id}`: `because` is missing; say why it is there"
        if not rule.match:
            yield (section, at), f"rule `{rule.id}`: `match` is missing; give an example"
    secrets = content.secrets
    if (secrets.hide or secrets.show) and not (secrets.match or secrets.miss):
        yield ("secrets",), "`secrets`: `match` is missing; give an example"


def _twice(content: PolicyDocument) -> Iterator[Objection]:
    seen: set[str] = set()
    for section, at, rule in _numbered(content):
        if rule.id in seen:
            yield (section, at, "id"), f"rule `{rule.id}`: another rule has this id; choose another"
        seen.add(rule.id)


def _without_effect(content: PolicyDocument) -> Iterator[Objection]:
    """Yield rules and checks that can never count, since others say it all."""
    strictest: dict[str, tuple[int, str]] = {}
    for at, command in enumerate(content.commands):
        tier = _TIERS.index(command.tier)
        if command.tier is Tier.SAFE:
            why = (
                "a rule on programs can only tighten, and `tier: safe` tightens nothing; remove it"
            )
            yield ("commands", at, "tier"), f"rule `{command.id}`: {why}"
        known = [strictest.get(name) for name in command.programs]
        if all(one is not None and tier <= one[0] for one in known):
            other = known[0][1] if known[0] else ""
            why = f"it is never reached: rule `{other}` says as much of the same programs"
            yield ("commands", at), f"rule `{command.id}`: {why}; remove one"
        for name in command.programs:
            if name not in strictest or tier > strictest[name][0]:
                strictest[name] = (tier, command.id)
    yield from _tools_without_effect(content)
    said: dict[str, str] = {}
    for at, rule in enumerate(content.rules):
        same = rule.triggers.model_dump_json() + rule.enforcement.model_dump_json()
        if same in said:
            why = f"it says what rule `{said[same]}` says already; remove one"
            yield ("rules", at), f"rule `{rule.id}`: {why}"
        said[same] = rule.id
        yield from _unreached(at, rule)


def _tools_without_effect(content: PolicyDocument) -> Iterator[Objection]:
    """Yield names of an agent's own tools about which a policy file has no say."""
    for kind, names in content.tools:
        for at, name in enumerate(names):
            split = split_name(name)
            known = AgentTools.default().find(*split) if split else None
            if split is None or known is None:
                continue
            what = f"`{name}`: `{split[1]}` of {split[0]} is known"
            if known.does == "internal":
                why = "and touches nothing outside the agent, which is asked about nothing; "
                yield ("tools", kind, at), f"{what}, {why}remove it"
            elif kind not in ("ask", "deny"):
                why = f"and judged by what it does, so `{kind}` has no effect on it; "
                yield ("tools", kind, at), f"{what}, {why}remove it, or write `ask` or `deny`"


def _unreached(at: int, rule: Rule) -> Iterator[Objection]:
    place, triggers = ("rules", at), rule.triggers
    spoken = triggers.command_patterns or triggers.keywords
    if not (triggers.file_patterns or spoken):
        why = "it is never reached: `triggers` names no file, program or word"
        yield (*place, "triggers"), f"rule `{rule.id}`: {why}"
    reached: list[tuple[frozenset[str], frozenset[str]]] = []
    for number, check in enumerate(rule.enforcement.checks):
        named = frozenset(check.writes), frozenset(check.reads)
        why = ""
        if not any(named) and not spoken:
            why = "name files in `writes` or `reads`"
        elif any(named) and not triggers.file_patterns:
            why = "`triggers` has no `file_patterns`"
        elif any(
            any(one) == any(named) and named[0] <= one[0] and named[1] <= one[1] for one in reached
        ):
            why = "an earlier check holds wherever it does; put it first"
        if why:
            inner = (*place, "enforcement", "checks", number)
            said = f"check `{check.id}`: it is never reached: {why}"
            yield inner, f"rule `{rule.id}`: {said}"
        reached.append(named)
