# SPDX-License-Identifier: Apache-2.0
"""One class name once in the product; functions are verb and noun; values are not called `one`.

What does not follow yet is listed or counted here. Lists and numbers only ever get smaller.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SEVERAL = frozenset(
    [
        "Alarm",
        "Approver",
        "Budget",
        "Call",
        "Carrier",
        "Change",
        "Changed",
        "Connection",
        "Decoder",
        "Door",
        "Entry",
        "Event",
        "Files",
        "Form",
        "Found",
        "Full",
        "Host",
        "Index",
        "Kept",
        "Kind",
        "Known",
        "Landed",
        "Landing",
        "Layer",
        "Limits",
        "Line",
        "Malformed",
        "Mode",
        "Node",
        "Odd",
        "Pattern",
        "Place",
        "Places",
        "Processes",
        "Put",
        "Question",
        "Refused",
        "Registry",
        "Repository",
        "Request",
        "Runner",
        "Scope",
        "Seen",
        "Shell",
        "Shown",
        "Side",
        "Stage",
        "State",
        "Store",
        "TooMuchWork",
        "Toolchain",
        "Transaction",
        "Use",
        "Wanted",
        "Watched",
        "Watcher",
    ]
)
"""Public classes of which there is more than one."""
MOST_PARTICIPLES = 800
"""Functions whose whole name is a participle."""
MOST_WORDS = {"one": 690, "found": 640, "said": 240, "told": 60}
"""How often values are given these names."""
_PARTICIPLE = re.compile(r"[a-z]+(?:ed|ing)|told|said|found|taken|given|held|shown|known|kept|made")


def nodes() -> Iterator[ast.AST]:
    """Yield every node of the product's modules."""
    for package in ("policy", "sandbox"):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text("utf-8")))


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is read like a value."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_names_say_what_they_are() -> None:
    classes: Counter[str] = Counter()
    words: Counter[str] = Counter()
    participles = 0
    for node in nodes():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes[node.name] += 1
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bare = _PARTICIPLE.fullmatch(node.name.strip("_"))
            participles += bare is not None and not is_property(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            words[node.id] += 1
        elif isinstance(node, ast.arg):
            words[node.arg] += 1
    assert {name for name, count in classes.items() if count > 1} == SEVERAL
    assert participles <= MOST_PARTICIPLES
    assert {name: words[name] for name, most in MOST_WORDS.items() if words[name] > most} == {}
