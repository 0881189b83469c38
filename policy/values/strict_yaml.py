# SPDX-License-Identifier: Apache-2.0
"""Read policy files strictly: unknown keys, duplicate keys and surprising scalars are refused.

The only module of `policy` that reads files. Messages name the file, the line and the rule.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.reader import ReaderError

from policy.values import validation_text

ModelT = TypeVar("ModelT", bound=BaseModel)


class PolicyError(Exception):
    """A policy file is wrong. The message says where and what to do."""


class _Strict(yaml.CSafeLoader):
    """YAML 1.2-like: only true/false are booleans, no octal or sexagesimal numbers, no dates."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text)
        self.source = name


_Strict.yaml_implicit_resolvers = {
    first: [(tag, rx) for tag, rx in pairs if tag in ("tag:yaml.org,2002:null",)]
    for first, pairs in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}

_Strict.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Strict.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9][0-9]*)$"), list("-0123456789")
)
_Strict.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^-?(?:0|[1-9][0-9]*)\.[0-9]+$"), list("-0123456789")
)


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key, _ in node.value:
        name = loader.construct_object(key)
        if not isinstance(name, Hashable):
            where = f"{loader.source}:{key.start_mark.line + 1}"
            raise PolicyError(f"{where}: a key is no text; write `key: value`")
        if name in seen:
            raise PolicyError(
                f"{loader.source}:{key.start_mark.line + 1}: key `{name}` is given twice; keep one"
            )
        seen.add(name)
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse(text: str, name: str) -> Any:
    """Return the data of a YAML text; `name` stands in messages. Raises PolicyError."""
    loader = _Strict(text, name)
    try:
        return loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}" if mark else name
        raise PolicyError(f"{place}: {_problem(error, text)}") from None
    except ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        what = f"it holds the control character U+{error.character:04X}; remove it"
        raise PolicyError(f"{name}:{line}: {what}") from None
    finally:
        loader.dispose()


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return what YAML does not like, and what to do where its own words do not say it."""
    problem, mark = error.problem or "not valid YAML", error.problem_mark
    if problem == "but found another document":
        return "it holds a second document; keep one, and remove `---`"
    lines = text.split("\n")
    if mark is not None and mark.line < len(lines):
        indent = re.match(r"[ \t]*", lines[mark.line])
        if indent is not None and "\t" in indent[0]:
            return "the line is indented with a tab; use spaces"
    return problem


def build(model: type[ModelT], data: Any, name: str, text: str = "") -> ModelT:
    """Return `data` as a model. Raises PolicyError naming the first wrong key, and its line where
    `text` is what the data was read from."""
    try:
        found = model.model_validate(data)
    except ValidationError as error:
        first = validation_text.first(error)
        where, wrong = first["loc"], validation_text.worded(first)
    else:
        mistyped = validation_text.mistyped(data, found) if text else None
        if mistyped is None:
            return found
        where = mistyped[0]
        wrong = f"`{'.'.join(map(str, where))}`: {mistyped[1]}"
    line = line_of(text, where) if text else 0
    raise PolicyError(f"{name}:{line}: {wrong}" if line else f"{name}: {wrong}")


def line_of(text: str, path: Iterable[str | int]) -> int:
    """Return the line of a YAML text in which what `path` leads to begins, or the last part of the
    path that exists; 0 if there is nothing."""
    node = yaml.compose(text, Loader=yaml.CSafeLoader)
    line = 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((k, v) for k, v in node.value if k.value == str(part)), None)
            if found is None:
                continue
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            if part >= len(node.value):
                break
            node = node.value[part]
            line = node.start_mark.line + 1
    return line


def default(model: type[ModelT], file: str) -> ModelT:
    """Return a file of `policy/defaults` as a model."""
    text = resources.files("policy").joinpath("defaults", file).read_text("utf-8")
    return build(model, parse(text, file), file)


@lru_cache(maxsize=1)
def digest() -> str:
    """Return a digest of all rules that come with the package."""
    found = hashlib.sha256()
    root = resources.files("policy")
    for folder in ("catalog", "defaults"):
        for file in sorted(root.joinpath(folder).iterdir(), key=lambda one: one.name):
            if file.name.endswith(".yaml"):
                found.update(f"{folder}/{file.name}\n".encode() + file.read_bytes())
    return found.hexdigest()


def located(name: str, text: str, message: str) -> str:
    """Return a message about a file with the line of the last key in it that the message names."""
    for word in reversed(re.findall(r"`([^`\n]+)`", message)):
        key = re.search(rf"""(?m)(?:^|[\s{{,"']){re.escape(word)}["']?\s*:""", text)
        if key:
            line = text.count("\n", 0, key.start() + 1) + 1
            return f"{name}:{line}: {message}"
    return f"{name}: {message}"


@dataclass(frozen=True, slots=True)
class Found(Generic[ModelT]):
    """A file that was found and read."""

    content: ModelT
    name: str
    """Its path, for messages."""
    text: str

    def refused(self, error: PolicyError) -> PolicyError:
        """Return what is wrong with what the file says, with its path and line."""
        return PolicyError(located(self.name, self.text, str(error)))


def find(model: type[ModelT], folder: Path, *names: str) -> Found[ModelT] | None:
    """Return the one of some files that a folder holds, or None. Raises PolicyError."""
    there = [folder / name for name in names if (folder / name).exists()]
    if len(there) > 1:
        message = f"`{there[0].name}` says the same and counts; keep one of them"
        raise PolicyError(f"{there[1]}: {message}")
    for path in there:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"{path}: cannot be read: {error}") from None
        return Found(build(model, parse(text, str(path)), str(path), text), str(path), text)
    return None
