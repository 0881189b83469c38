# SPDX-License-Identifier: Apache-2.0
"""Put lists and pipelines of the grammar into the order in which the shell groups them.

The grammar nests `a | b && c` as a pipeline that holds a list, hangs the redirections of a last
command on the whole list, and puts what follows a here-document's delimiter below the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

_OPERATORS = frozenset(("|", "|&", "&&", "||"))


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of a chain with the operator before it and what the grammar hung elsewhere."""

    node: Node | None
    operator: str = ""
    redirects: tuple[Node, ...] = ()
    arguments: tuple[Node, ...] = ()


def stages(node: Node, operator: str = "") -> list[Stage]:
    """Return the commands of a list or pipeline, flat and in order."""
    kind = node.type
    if kind in ("list", "pipeline"):
        done: list[Stage] = []
        pending = operator
        for child in node.children:
            if child.type in _OPERATORS:
                pending = child.type
            elif child.is_named and child.type != "comment":
                done += stages(child, pending)
        return done
    if kind == "redirected_statement":
        return _redirected(node, operator)
    return [Stage(node, operator)]


def _redirected(node: Node, operator: str) -> list[Stage]:
    body = node.child_by_field_name("body")
    done = stages(body, operator) if body is not None else [Stage(None, operator)]
    redirects = [child for child in node.children if child.type.endswith("_redirect")]
    last = done[-1]
    arguments: list[Node] = []
    later: list[Stage] = []
    inner: list[Node] = []
    for redirect in redirects:
        if redirect.type == "heredoc_redirect":
            for extra in _inside(redirect):
                if isinstance(extra, Stage):
                    later.append(extra)
                elif extra.type.endswith("_redirect"):
                    inner.append(extra)
                else:
                    arguments.append(extra)
    done[-1] = replace(
        last,
        redirects=(*last.redirects, *redirects, *inner),
        arguments=(*last.arguments, *arguments),
    )
    return done + later


def _inside(document: Node) -> Iterator[Node | Stage]:
    operator = ""
    for at, child in enumerate(document.children):
        if child.type in _OPERATORS:
            operator = child.type
        elif child.type in ("pipeline", "list", "redirected_statement") or (
            document.field_name_for_child(at) == "right"
        ):
            yield from stages(child, operator or "|")
            operator = ""
        elif (
            child.type in ("file_redirect", "herestring_redirect")
            or document.field_name_for_child(at) == "argument"
        ):
            yield child


def pipelines(flat: list[Stage]) -> list[tuple[str, list[Stage]]]:
    """Return the chain as pipelines, each with the `&&` or `||` before it."""
    grouped: list[tuple[str, list[Stage]]] = []
    for stage in flat:
        if stage.operator in ("|", "|&") and grouped:
            grouped[-1][1].append(stage)
        else:
            grouped.append((stage.operator, [stage]))
    return grouped
