# SPDX-License-Identifier: Apache-2.0
"""What the commands of `lockgate policy` share: options, and the policy that a word stands for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput

if TYPE_CHECKING:
    from policy.gate1.decide import Policy
    from policy.sources.precedence import Effective, Layer
    from sandbox.gates.policy_files import Policies
    from sandbox.policy_tools.cases import Case

DEFAULTS, EFFECTIVE = "defaults", "effective"
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
WORKSPACE = click.option(
    "-w", "--workspace", metavar="PATH", help="Workspace; default: the one you are in."
)


def policies() -> Policies:
    """Return the policy files of this user."""
    from sandbox.gates.policy_files import Policies

    return Policies(terminal.dirs())


def place_of(workspace: str | None) -> str:
    """Return the workspace that a command is about."""
    from sandbox.workspaces.registry import Registry

    registry = Registry(terminal.dirs())
    if workspace is not None:
        return registry.check(workspace).path
    here = os.getcwd()  # noqa: PTH109
    found = registry.holding(here)
    return found.path if found else here


def effective_of(known: Policies, place: str) -> Effective:
    """Return the policy that counts. Raises BadInput."""
    from policy.values.strict_yaml import PolicyError

    try:
        return known.of((place,))
    except PolicyError as error:
        raise BadInput(str(error)) from None


def named(known: Policies, name: str, place: str) -> Effective:
    """Return the policy that a word or a file stands for."""
    from policy.sources.precedence import Layer, Source, combine
    from policy.values.strict_yaml import PolicyError
    from sandbox.gates.policy_files import BuiltIn

    built_in = BuiltIn().of(())
    if name == DEFAULTS:
        return built_in
    if name == EFFECTIVE:
        return effective_of(known, place)
    if name in {layer.value for layer in Layer}:
        full = effective_of(known, place)
        order = list(Layer)
        kept = [
            source
            for source in full.sources
            if order.index(source.layer) <= order.index(Layer(name))
        ]
        return combine(known.base(), built_in.paths, kept)
    try:
        document = known.document(Layer.USER, Path(name))
        if document is None:
            words = f"`{DEFAULTS}`, `{EFFECTIVE}`, a layer such as `user`, or a policy file"
            raise BadInput(f"`{name}` is not there; name {words}")
        return combine(built_in.policy, built_in.paths, [Source(Layer.USER, document)])
    except PolicyError as error:
        raise BadInput(str(error)) from None


def cases_of(file: str, found: Policy) -> tuple[Case, ...]:
    """Return the cases of a file. Raises BadInput."""
    from policy.values.strict_yaml import PolicyError
    from sandbox.policy_tools.cases import read_cases

    try:
        return read_cases(Path(file), found)
    except PolicyError as error:
        raise BadInput(str(error)) from None


def chosen(known: Policies, place: str, files: tuple[str, ...]) -> tuple[tuple[Layer, Path], ...]:
    """Return files that were named, or all that count, each with its layer."""
    from policy.sources.precedence import Layer

    counting = known.files((place,))
    if not files:
        return counting
    of = {path: layer for layer, path in counting}
    return tuple((of.get(Path(file).absolute(), Layer.USER), Path(file)) for file in files)
