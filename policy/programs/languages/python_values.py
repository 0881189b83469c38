# SPDX-License-Identifier: Apache-2.0
"""Follow the values of a literal Python program as far as constants go; nothing is executed."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from policy.values.numbers import natural
from policy.values.partial import HOLE, NET, NUM, clean, unknown

if TYPE_CHECKING:
    from policy.shell.interpreter import Shell

NETWORK = re.compile(
    r"^(?:urllib\.request|urllib2|requests|httpx|aiohttp|http\.client|socket|smtplib|ftplib|telnetlib|poplib|imaplib"
    r"|paramiko|dns\.resolver|dns\.query|scapy|pycurl|grpc|pymongo|psycopg2?|redis|pymysql|kafka|pika|websocket|websockets|xmlrpc\.client|asyncio\.open_connection|ssl|boto3|nntplib|socketserver|http\.server)\b"
)
PRIVATE = f"/tmp/tmp{NUM}"  # noqa: S108 - the cell's own directory
"""What `tempfile` makes; the name is not known, but it is one name."""
_MADE = frozenset(
    ("tempfile.mkdtemp", "tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile",
     "tempfile.mktemp")
)  # fmt: skip
_MOST_NUMBERS = 16
"""Numbers of a range that a loop is followed with."""
_MOST_BOUND = 10**9
"""A range that ends beyond is not followed."""
_MOST_LENGTH = 8192
"""Characters of a value that is still followed."""
_MOST_NODES = 4000


class Values:
    """What the names and expressions of one program stand for."""

    def __init__(self, shell: Shell, args: list[str], stdin: str | None) -> None:
        self._shell = shell
        self._args = ["-c", *args]
        self._stdin = stdin
        self._names: dict[str, str] = {}
        self._aliases: dict[str, str] = {"Path": "pathlib.Path", "rmtree": "shutil.rmtree"}
        self._lists: dict[str, list[str]] = {}
        self._home = shell.state.home
        self._left = _MOST_NODES
        self._place = shell.state.place

    def value(self, node: ast.expr | None) -> str:
        """Return the text that an expression gives, as far as it is known."""
        self._left -= 1
        if node is None or self._left < 0:
            return HOLE
        found = self._value(node)
        self._left -= len(found) // 100
        return found if len(found) <= _MOST_LENGTH else HOLE

    def _value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return clean(text)
            case ast.Constant(value=bytes(raw)):
                return clean(raw.decode("utf-8", "replace"))
            case ast.Constant(value=number) if isinstance(number, int):
                return str(number)
            case ast.Name(id=name):
                return self._names.get(name, HOLE)
            case ast.JoinedStr(values=parts):
                return "".join(self.value(part) for part in parts)
            case ast.FormattedValue(value=inner):
                return self.value(inner)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.value(left) + self.value(right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self._join([self.value(left), self.value(right)])
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                items = right.elts if isinstance(right, ast.Tuple) else [right]
                out = self.value(left)
                for item in items:
                    out = re.sub(r"%[sdr]", lambda _: self.value(item), out, count=1)  # noqa: B023
                return out
            case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int(times))) if (
                0 <= times < 100
            ):
                return self.value(left) * times
            case ast.Call():
                return self._called(node)
            case ast.Subscript(value=ast.Attribute(attr="environ"), slice=key):
                return self._home if self.value(key) == "HOME" else HOLE
            case ast.Subscript(value=inner, slice=key):
                return self._item(inner, key)
            case ast.Attribute(attr="executable") if self._dotted(node) == "sys.executable":
                return "python3"
            case ast.Attribute(attr="name", value=inner) if self.value(inner) == PRIVATE:
                return PRIVATE
            case ast.Attribute(attr="parent", value=inner):
                return self.value(inner).rpartition("/")[0] or "."
            case ast.Attribute(value=inner) if NET in self.value(inner):
                return NET
            case ast.NamedExpr(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.value(inner)
            case ast.IfExp(body=body):
                return self.value(body)
        return HOLE

    def _item(self, inner: ast.expr, key: ast.expr) -> str:
        items = self._items(inner)
        if isinstance(key, ast.Slice) and self._dotted(inner) not in ("sys.argv",):
            text = self.value(inner)
            step = self.value(key.step) if key.step is not None else "1"
            if isinstance(key.step, ast.UnaryOp):
                step = "-1"
            return text[::-1] if step == "-1" and not unknown(text) else HOLE
        at = natural(self.value(key))
        if items is not None and at is not None and at < len(items):
            return items[at]
        return HOLE

    def _items(self, node: ast.expr | None) -> list[str] | None:
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(element) for element in node.elts]
        if isinstance(node, ast.Name) and node.id in self._lists:
            return self._lists[node.id]
        if node is not None and self._dotted(node) == "sys.argv":
            return self._args
        if isinstance(node, ast.Call) and self._dotted(node.func) == "range":
            return self._numbers(node.args)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "split"
        ):
            base = self.value(node.func.value)
            return (
                base.split(self.value(node.args[0]) if node.args else None)
                if not unknown(base)
                else None
            )
        return None

    def _numbers(self, bounds: list[ast.expr]) -> list[str] | None:
        """Return some numbers of a range: all of them where they are known and few.

        Which they are hardly matters for a path: a number leads to no other folder.
        """
        if "range" in self._names:
            return None
        known = [natural(self.value(bound)) for bound in bounds]
        few = [one for one in known if one is not None and one < _MOST_BOUND]
        if known and len(few) == len(known) and few[2:] != [0]:
            found = range(*few[:3])[:_MOST_NUMBERS]
            return [str(one) for one in found] or None
        return ["0", "1"]

    @staticmethod
    def _join(parts: list[str]) -> str:
        out = ""
        for part in parts:
            out = part if part.startswith("/") or not out else f"{out.rstrip('/')}/{part}"
        return out

    def _dotted(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return self._aliases.get(name, name)
            case ast.Attribute(value=inner, attr=name):
                return f"{self._dotted(inner)}.{name}"
            case ast.Call(func=ast.Name(id="__import__"), args=[first, *_]):
                return self.value(first)
            case ast.Call(func=func, args=[first, *_]) if (
                self._dotted(func) == "importlib.import_module"
            ):
                return self.value(first)
            case ast.Subscript(value=inner, slice=key) if self._dotted(inner) == "sys.modules":
                return self.value(key)
            case ast.Call(func=ast.Name(id="getattr"), args=[base, name, *_]):
                return f"{self._dotted(base)}.{self.value(name)}"
        return ""

    def _called(self, node: ast.Call) -> str:
        name = self._dotted(node.func)
        args = [self.value(argument) for argument in node.args]
        if name in (
            "pathlib.Path",
            "pathlib.PurePath",
            "pathlib.PosixPath",
            "os.path.join",
            "os.fspath",
            "str",
        ):
            return self._join(args) if args else "."
        if name in ("os.path.expanduser",) or name.endswith(".expanduser"):
            base = args[0] if args else self.value(getattr(node.func, "value", None))
            return (
                self._home + base[1:]
                if base.startswith("~/") or base == "~"
                else re.sub(r"^~(?=\w)", "/home/", base)
            )
        if name in ("pathlib.Path.home", "os.path.expandvars"):
            return self._home if not args else args[0].replace("$HOME", self._home)
        if name in ("os.getcwd", "pathlib.Path.cwd"):
            return self._place
        if name in ("os.getenv", "os.environ.get") and args:
            return self._home if args[0] == "HOME" else (args[1] if len(args) > 1 else HOLE)
        if name in _MADE and not _elsewhere(node):
            return PRIVATE
        if name == "chr" and args and (code := natural(args[0])) is not None and code < 0xE000:
            return chr(code)
        if name in ("bytes.fromhex", "binascii.unhexlify") and args:
            try:
                return clean(bytes.fromhex(args[0]).decode("utf-8", "replace"))
            except ValueError:
                return HOLE
        if NETWORK.match(name):
            return NET
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, node, args)
        return HOLE

    def _method(self, func: ast.Attribute, node: ast.Call, args: list[str]) -> str:
        base = self.value(func.value)
        if NET in base:
            return NET
        match func.attr:
            case "joinpath":
                return self._join([base, *args])
            case "join" if node.args:
                items = self._items(node.args[0])
                return base.join(items) if items is not None else HOLE
            case "replace" if len(args) == 2:
                return base.replace(args[0], args[1])
            case "format":
                for argument in args:
                    base = base.replace("{}", argument, 1)
                return base
            case (
                "decode"
                | "encode"
                | "strip"
                | "resolve"
                | "absolute"
                | "as_posix"
                | "rstrip"
                | "lstrip"
            ):
                return base
            case "lower":
                return base.lower()
            case "upper":
                return base.upper()
            case "with_name" if args:
                return self._join([base.rpartition("/")[0], args[0]])
            case "with_suffix" if args:
                return re.sub(r"\.[^./]*$", "", base) + args[0]
        return HOLE


def _elsewhere(node: ast.Call) -> bool:
    """Return whether a call of `tempfile` may name a folder, or a name that leaves it."""
    plain = all(
        isinstance(keyword.value, ast.Constant)
        and keyword.arg in ("prefix", "suffix", "delete", "mode")
        and "/" not in str(keyword.value.value)
        for keyword in node.keywords
    )  # fmt: skip
    return bool(node.args) or not plain
