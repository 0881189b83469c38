# SPDX-License-Identifier: Apache-2.0
"""Shell arithmetic on known numbers; anything else is some unknown number."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from policy.values.partial import NUM

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_NAME = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?")
_MOST = 1 << 62
_LONGEST = 200


_SETS = re.compile(
    r"(?<![\w$])([A-Za-z_]\w*)\s*(?:\[|(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)"
    r"|(?:\+\+|--)\s*([A-Za-z_]\w*)"
)
"""An element of an array counts as set, whatever is done with it."""


def assigned(text: str) -> list[str]:
    """Return the variables that an arithmetic text sets."""
    return list(dict.fromkeys(match[1] or match[2] for match in _SETS.finditer(text)))


def evaluate(text: str, value: Callable[[str], str]) -> str:
    """Return the value of an arithmetic text as digits, or NUM; `value` gives variables."""
    plain = text.strip()
    if re.fullmatch(r"-?\d+", plain):
        return str(int(plain, 10)) if len(plain) < 19 else NUM
    if len(plain) > _LONGEST:
        return NUM
    names = {match[1] for match in _NAME.finditer(plain)}
    known = {name: value(name) for name in names}
    if any(not re.fullmatch(r"-?\d{1,18}", one) for one in known.values()):
        return NUM
    filled = _NAME.sub(lambda found: f"({known[found[1]]})", plain)
    if not re.fullmatch(r"[\d\s+*/%()^|&-]+", filled) or "**" in filled:
        return NUM
    try:
        tree = ast.parse(re.sub(r"\b0+(\d)", r"\1", filled.replace("/", "//")), mode="eval")
        return str(_compute(tree.body))
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return NUM


def _compute(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(number)):
            result = number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result = _OPERATORS[type(op)](_compute(left), _compute(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_compute(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            result = _compute(operand)
        case _:
            raise ValueError("not plain arithmetic")
    if abs(result) > _MOST:
        raise ValueError("too large")
    return result
