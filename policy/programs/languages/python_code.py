# SPDX-License-Identifier: Apache-2.0
"""Read a literal Python program: constants are followed, calls that matter are recorded.

Names of files are joined from their parts where those are known. What is assembled at run time in
ways that are not followed makes the program opaque; nothing here is executed.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from policy.facts import How
from policy.hosts import written_in
from policy.model import Tier
from policy.programs.languages.python_values import NETWORK, PRIVATE, Values
from policy.shell import leaks
from policy.shell.recursion import FORK_BOMB
from policy.shell.redirects import store
from policy.shell.state import Call
from policy.values.numbers import natural
from policy.values.partial import HOLE, NET, unknown
from policy.values.paths import absolute

if TYPE_CHECKING:
    from policy.shell.interpreter import Shell

_WRITING = frozenset(("write_text", "write_bytes", "touch", "mkdir", "symlink_to", "hardlink_to"))
_READING = frozenset(("read_text", "read_bytes", "iterdir", "glob", "rglob", "walk"))
_DELETING = frozenset(("unlink", "rmdir"))
_MOVING = frozenset(("rename", "replace", "move"))
_TREES = frozenset(("shutil.rmtree", "os.removedirs", "rmtree", "removedirs", "send2trash"))
_TREE_NAMES = frozenset(("rmtree", "remove_tree", "removedirs"))
_DELETES = frozenset(("os.remove", "os.unlink", "os.rmdir", "os.truncate"))
_OS_WRITES = frozenset(("os.mkdir", "os.makedirs", "os.mknod", "os.mkfifo", "os.utime", "os.open"))
_COPIES = frozenset(
    ("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move",
     "os.rename", "os.replace", "os.link", "os.symlink", "os.renames", "shutil.copymode",
     "shutil.copystat")
)  # fmt: skip
_LISTS = frozenset(
    ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob", "os.stat", "os.readlink")
)
_MODES = frozenset(("os.chmod", "os.chown", "os.lchown", "os.lchmod", "os.chflags", "shutil.chown"))
_EXPORTS = {
    "os": ("system", "popen", "remove", "unlink", "rmdir", "removedirs", "rename", "replace",
           "chmod", "chown", "fork", "kill", "execv", "execvp", "execl", "execlp", "spawnlp",
           "spawnvp", "listdir", "walk", "environ", "getenv", "makedirs", "mkdir", "symlink",
           "link"),
    "subprocess": ("run", "call", "Popen", "check_call", "check_output", "getoutput",
                   "getstatusoutput"),
    "shutil": ("rmtree", "move", "copy", "copy2", "copyfile", "copytree", "chown"),
    "urllib.request": ("urlopen", "urlretrieve"),
    "pty": ("spawn",),
    "socket": ("socket", "create_connection"),
}  # fmt: skip
"""What `from module import *` brings, of what matters here."""
_TABLES = re.compile(r"__dict__|__builtins__|\bglobals\b|\blocals\b|\bvars\b|sys\.modules")
_UNTRUSTED = re.compile(r"\b(?:input\(|raw_input\(|stdin\b|argv\b|environ\b|getenv\()")
"""What other people or programs hand in."""
_ENVIRONMENT = frozenset(("os.getenv", "os.environ.get"))
_RUNS = re.compile(
    r"(?:os\.(?:system|popen|exec\w*|spawn\w*|posix_spawnp?|startfile)|subprocess\.\w+|pty\.spawn|commands\.get\w*"
    r"|asyncio\.create_subprocess_\w+|pexpect\.\w+|sh\.\w+)$"
)
_DYNAMIC = frozenset(
    ("exec", "eval", "compile", "__import__", "getattr", "setattr", "importlib.import_module",
     "runpy.run_path", "runpy.run_module", "ctypes.CDLL", "ctypes.cdll.LoadLibrary",
     "marshal.loads", "pickle.loads", "pickle.load", "code.interact", "globals", "vars",
     "builtins.exec", "builtins.eval", "execfile")
)  # fmt: skip


_CHANGES = re.compile(
    r"(?i)\b(?:insert|update|delete|create|drop|alter|replace|vacuum|attach|reindex|pragma)\b"
    r"|\b(?:backup|deserialize|load_extension|commit|executescript)\b"
)
"""Words of statements that change a database."""


class Code(Values, ast.NodeVisitor):
    """Follows one program."""

    def __init__(self, shell: Shell, args: list[str], stdin: str | None) -> None:
        super().__init__(shell, args, stdin)
        self._out: list[str] = []
        self._changes = True
        self._tested: set[int] = set()

    def run(self, text: str) -> str:
        """Record what the program does and return what it prints."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._shell.find(Tier.DANGER, "opaque", "the Python program cannot be read")
            self._shell.catalog.scan(self._shell, text)
            return HOLE
        self._changes = _CHANGES.search(text) is not None
        try:
            self.visit(tree)
        except RecursionError:
            self._shell.find(
                Tier.DANGER, "opaque", "the Python program nests too deeply to be read"
            )
        leaks.program(self._shell, text)
        if self._shell.facts.network:
            self._shell.facts.hosts |= dict.fromkeys(written_in(text))
        leaks.fed(self._shell, text, self._stdin)
        return "".join(self._out) or HOLE

    def _touch(self, how: How, path: str) -> None:
        if path == HOLE and how in (How.READ, How.LIST, How.EXIST):
            return
        full = path if path.startswith(HOLE) else absolute(path, self._place)
        self._shell.touch(how, full, program="python")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Note a secret of the environment."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load) and self._dotted(node.value) == "os.environ":
            self._variable(self.value(node.slice))

    def visit(self, node: ast.AST) -> None:
        """Note of which values only the truth counts, then go on as ever."""
        match node:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                self._tested.add(id(test))
            case ast.UnaryOp(op=ast.Not(), operand=test):
                self._tested.add(id(test))
            case ast.Call(func=ast.Name(id="bool" | "len"), args=[test]):
                self._tested.add(id(test))
            case ast.Compare(left=test, ops=[ast.Is() | ast.IsNot()]):
                self._tested.add(id(test))
        super().visit(node)

    def _variable(self, name: str) -> None:
        if leaks.SECRET_VARIABLE.search(name):
            self._shell.find(Tier.FORBIDDEN, "secrets", f"it reads the secret `{name}`")

    # Statements

    def visit_Import(self, node: ast.Import) -> None:
        """Note the names of modules."""
        for name in node.names:
            self._aliases[name.asname or name.name.split(".")[0]] = (
                name.name if name.asname else name.name.split(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note the names of what is imported."""
        for one in node.names:
            if one.name == "*":
                for name in _EXPORTS.get(node.module or "", ()):
                    self._aliases[name] = f"{node.module}.{name}"
            self._aliases[one.asname or one.name] = f"{node.module}.{one.name}"

    def visit_Assign(self, node: ast.Assign) -> None:
        """Follow an assignment."""
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Follow an assignment."""
        self.generic_visit(node)
        if node.value is not None:
            self._bind(node.target, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Follow an assignment inside an expression."""
        self.generic_visit(node)
        self._bind(node.target, node.value)

    def visit_While(self, node: ast.While) -> None:
        """Note a loop without an end."""
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        leaves = (ast.Break, ast.Return, ast.Raise)
        if endless and not any(isinstance(one, leaves) for one in ast.walk(node)):
            self._shell.find(Tier.DANGER, "resources", "it loops without an end")
            if any(isinstance(one, ast.Call) and self._dotted(one.func).endswith("fork")
                   for one in ast.walk(node)):  # fmt: skip
                self._shell.find(Tier.FORBIDDEN, "resources", FORK_BOMB)
        self.generic_visit(node)

    def visit_With(self, node: ast.With) -> None:
        """Note the name of a folder for temporary files."""
        for item in node.items:
            if (
                isinstance(item.optional_vars, ast.Name)
                and self.value(item.context_expr) == PRIVATE
            ):
                self._names[item.optional_vars.id] = PRIVATE
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        """Follow a loop, item by item where the items are known."""
        self.visit(node.iter)
        items = self._items(node.iter)
        for item in items[:16] if items else [HOLE]:
            if isinstance(node.target, ast.Name):
                self._names[node.target.id] = item
            for statement in node.body:
                self.visit(statement)
        for statement in node.orelse:
            self.visit(statement)

    def _comprehended(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, elements: list[ast.expr]
    ) -> None:
        for generator in node.generators:
            self.visit(generator.iter)
            items = self._items(generator.iter)
            elements = [*elements, *generator.ifs]
            if isinstance(generator.target, ast.Name):
                self._names[generator.target.id] = HOLE
                for item in items[:16] if items else []:
                    self._names[generator.target.id] = item
                    for element in elements:
                        self.visit(element)
                if items:
                    return
        for element in elements:
            self.visit(element)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        """Follow a comprehension item by item."""
        self._comprehended(node, [node.elt])

    def visit_SetComp(self, node: ast.SetComp) -> None:
        """Follow a comprehension item by item."""
        self._comprehended(node, [node.elt])

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        """Follow a comprehension item by item."""
        self._comprehended(node, [node.elt])

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for one, inner in zip(target.elts, value.elts, strict=False):
                self._bind(one, inner)
        elif isinstance(target, ast.Name):
            items = self._items(value)
            if items is not None:
                self._lists[target.id] = items
            dotted = self._dotted(value) if isinstance(value, ast.Attribute | ast.Call) else ""
            if dotted and "." in dotted and self.value(value) == HOLE:
                self._aliases[target.id] = dotted
            elif isinstance(value, ast.Name) and value.id in self._aliases:
                self._aliases[target.id] = self._aliases[value.id]
            self._names[target.id] = self.value(value)

    def visit_Call(self, node: ast.Call) -> None:
        """Record what a call does."""
        self.generic_visit(node)
        name = self._dotted(node.func)
        if isinstance(node.func, ast.Subscript) and _TABLES.search(ast.unparse(node.func)[:400]):
            self._shell.find(Tier.DANGER, "opaque", "it finds a function by a name at run time")
        args = [self.value(argument) for argument in node.args]
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if name in _ENVIRONMENT and args and id(node) not in self._tested:
            self._variable(args[0])
        if name in ("print", "sys.stdout.write"):
            self._out.append(" ".join(args) + "\n")
        elif name in (
            "open",
            "io.open",
            "codecs.open",
            "builtins.open",
            "os.fdopen",
        ) or name.endswith(".open"):
            self._open(name, node, args, keywords)
        elif name in _DYNAMIC:
            self._dynamic(name, node, args)
        elif _RUNS.fullmatch(name):
            self._started(name, node, args)
        elif NETWORK.match(name):
            self._network(name, args)
        elif name == "sqlite3.connect":
            self._database(args)
        else:
            self._file_call(name, node, args)

    def _open(
        self, name: str, node: ast.Call, args: list[str], keywords: dict[str, ast.expr]
    ) -> None:
        method = isinstance(node.func, ast.Attribute) and name not in (
            "io.open",
            "codecs.open",
            "os.open",
        )
        if name == "os.open":
            flags = ast.dump(node.args[1]) if len(node.args) > 1 else ""
            self._touch(
                How.WRITE if re.search("O_(?:WRONLY|RDWR|CREAT|APPEND|TRUNC)", flags) else How.READ,
                args[0] if args else HOLE,
            )
            return
        if method and name.startswith(("webbrowser", "urllib")):
            self._network(name, args)
            return
        path = (
            self.value(node.func.value)
            if method and isinstance(node.func, ast.Attribute)
            else (args[0] if args else HOLE)
        )
        given = args if method else args[1:]
        mode = self.value(keywords["mode"]) if "mode" in keywords else (given[0] if given else "r")
        if method and path == HOLE and given and "/" in given[0]:
            path, mode = given[0], given[1] if len(given) > 1 else "r"
        writes = bool(re.search(r"[wax+]", mode)) or mode == HOLE
        self._touch(How.WRITE if writes else How.READ, path)
        if writes and not path.startswith(HOLE):
            store(self._shell, absolute(path, self._place), HOLE)

    def _dynamic(self, name: str, node: ast.Call, args: list[str]) -> None:
        if name in (
            "getattr",
            "setattr",
            "vars",
            "globals",
            "__import__",
            "importlib.import_module",
        ):
            if name.endswith(("__import__", "import_module")) and args and not unknown(args[0]):
                return
            if (
                name == "getattr"
                and len(args) > 1
                and not unknown(args[1])
                and not self._dotted(node.args[0]).startswith(("os", "sub"))
            ):
                return
            self._shell.find(Tier.DANGER, "opaque", f"`{name}` finds its name at run time")
            return
        text = args[0] if args else HOLE
        if name == "pickle.load":  # of a file: as its code could be in a file that is run
            self._shell.find(Tier.CAUTION, "code", f"`{name}` can run code that a file holds")
        else:
            self._shell.find(Tier.DANGER, "opaque", f"`{name}` runs code that is made at run time")
        if NET in text:
            self._shell.find(
                Tier.FORBIDDEN, "remote-script", "it runs a program that came from the network"
            )
        if name in ("exec", "eval") and node.args and _UNTRUSTED.search(ast.unparse(node.args[0])):
            why = (
                f"`{name}` runs what somebody else hands in"  # safety-guardrails, blocked patterns
            )
            self._shell.find(Tier.FORBIDDEN, "untrusted-code", why)
        if name in ("exec", "eval", "compile") and not unknown(text) and self._left > 0:
            try:
                self.visit(ast.parse(text))
            except (SyntaxError, ValueError):
                return

    def _started(self, name: str, node: ast.Call, args: list[str]) -> None:
        items = self._items(node.args[0]) if node.args else None
        shell = self._shell
        if name.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
            values = [argument for argument in args if argument != HOLE]
            program = (
                values[1]
                if name.startswith("os.spawn") and len(values) > 1
                else (values[0] if values else HOLE)
            )
            rest = (
                next(
                    (self._items(argument) for argument in node.args if self._items(argument)), None
                )
                or values[1:]
            )
            shell.find(Tier.DANGER, "runs-program", f"`{name}` runs another program")
            shell.aside(lambda: shell.call(Call((program, *rest[1:]), plain=False)))
            return
        if any(keyword.arg in ("start_new_session", "preexec_fn") for keyword in node.keywords):
            shell.find(Tier.DANGER, "processes", f"`{name}` starts a program that leaves the call")
        if items is not None:
            words = tuple(items)
            if any(keyword.arg == "shell" for keyword in node.keywords):
                words = ("sh", "-c", *items)
            named = _first_is_literal(node.args[0])
            shell.aside(lambda: shell.call(Call(words, plain=False, named=named)))
        elif args:
            text = args[0]
            if unknown(text):
                shell.find(Tier.DANGER, "opaque", f"`{name}` runs a program that cannot be known")
            shell.aside(lambda: shell.run_text(text))
        elif name.startswith("subprocess.") and name.rsplit(".", 1)[-1][0].isupper():
            return
        else:
            shell.find(Tier.DANGER, "runs-program", f"`{name}` runs another program")

    def _network(self, name: str, args: list[str]) -> None:
        if name.rsplit(".", 1)[-1] in (
            "timeout",
            "Request",
            "quote",
            "urlparse",
            "gethostname",
            "error",
        ):
            return
        self._shell.facts.network = True
        self._shell.find(Tier.DANGER, "network", f"`{name}` talks to other machines")
        if name.endswith("urlretrieve") and len(args) > 1:
            self._touch(How.WRITE, args[1])
            store(self._shell, absolute(args[1], self._place), NET)

    def _database(self, args: list[str]) -> None:
        """Record that a database in a file is opened; its statements are looked at as well."""
        name, _, settings = (args[0] if args else HOLE).partition("?")
        path = name.removeprefix("file:")
        if path == ":memory:":
            return
        reads = "mode=ro" in settings or "immutable=1" in settings or not self._changes
        self._touch(How.READ if reads else How.WRITE, path)

    def _file_call(self, name: str, node: ast.Call, args: list[str]) -> None:
        shell = self._shell
        first = args[0] if args else HOLE
        if name in _TREES and first == PRIVATE:
            self._touch(How.WRITE, first)
        elif name in _TREES or name.rsplit(".", 1)[-1] in _TREE_NAMES:
            shell.find(Tier.FORBIDDEN, "recursive-delete", f"`{name}` deletes a whole tree")
            self._touch(How.TREE, first)
        elif name in _DELETES:
            shell.find(Tier.DANGER, "delete", f"`{name}` deletes")
            self._touch(How.EMPTY if name == "os.truncate" else How.DELETE, first)
        elif name in _COPIES:
            moves = name in ("shutil.move", "os.rename", "os.replace", "os.renames")
            self._touch(How.MOVE if moves else How.READ, first)
            self._touch(How.WRITE, args[1] if len(args) > 1 else HOLE)
        elif name in _OS_WRITES:
            self._touch(How.WRITE, first)
        elif name in ("fileinput.input", "fileinput.FileInput"):
            if any(keyword.arg == "inplace" for keyword in node.keywords):
                for path in self._items(node.args[0]) or [first] if node.args else self._args[1:]:
                    self._touch(How.WRITE, path)
        elif name in _LISTS:
            self._touch(How.LIST, first)
        elif name.rsplit(".", 1)[-1] in ("execute", "executescript", "executemany") and args:
            self._shell.catalog.statements(self._shell, first)
        elif name in _MODES:
            everybody = all(one in ast.unparse(node) for one in ("S_IRWXU", "S_IRWXG", "S_IRWXO"))
            if name == "os.chmod" and (_wide(args) or everybody):
                shell.find(Tier.FORBIDDEN, "world-writable", "everybody may write and run it")
            shell.find(Tier.DANGER, "permissions", f"`{name}` changes modes or owners")
            self._touch(How.META, first)
        elif name.rsplit(".", 1)[-1] == "dotenv_values":
            self._touch(How.READ, first if args else ".env")
        elif name == "os.chdir":
            self._place = first if first.startswith(HOLE) else absolute(first, self._place)
            shell.touch(How.EXIST, self._place, program="python")
        elif name in ("os.kill", "os.killpg", "signal.pidfd_send_signal"):
            shell.find(Tier.DANGER, "processes", f"`{name}` ends processes")
        elif name in ("os.setuid", "os.setgid", "os.setsid", "os.fork", "os.forkpty", "os.daemon"):
            shell.find(Tier.DANGER, "processes", f"`{name}` makes processes that leave the call")
        elif isinstance(node.func, ast.Attribute):
            self._path_method(node.func, args)

    def _path_method(self, func: ast.Attribute, args: list[str]) -> None:
        if func.attr == "push" and "git" in self._aliases:
            self._shell.find(Tier.DANGER, "git-push", "`push` leaves the machine")
        if func.attr not in (
            *_WRITING,
            *_READING,
            *_DELETING,
            *_MOVING,
            "chmod",
            "connect",
            "connect_ex",
        ):
            return
        path = self.value(func.value)
        if func.attr in ("replace",) and len(args) != 1:
            return
        if func.attr in _WRITING:
            self._touch(How.WRITE, path)
        elif func.attr in _READING:
            self._touch(How.READ if func.attr.startswith("read") else How.LIST, path)
        elif func.attr in _DELETING:
            self._shell.find(Tier.DANGER, "delete", f"`{func.attr}` deletes")
            self._touch(How.DELETE, path)
        elif func.attr in _MOVING:
            self._touch(How.MOVE, path)
            self._touch(How.WRITE, args[0] if args else HOLE)
        elif func.attr == "chmod":
            if _wide(["", *args]):
                self._shell.find(Tier.FORBIDDEN, "world-writable", "everybody may write and run it")
            self._shell.find(Tier.DANGER, "permissions", "`chmod` changes modes")
            self._touch(How.META, path)
        elif func.attr.startswith("connect"):
            self._shell.find(Tier.DANGER, "network", "`connect` talks to other machines")


def _wide(args: list[str]) -> bool:
    """Return whether the mode of a call lets everybody write and run."""
    return len(args) > 1 and (natural(args[1]) or 0) & 0o777 == 0o777


def _first_is_literal(node: ast.expr) -> bool:
    """Return whether a list of words begins with one that stands in the program as it is."""
    match node:
        case (
            ast.List(elts=[ast.Constant(value=str()), *_])
            | ast.Tuple(elts=[ast.Constant(value=str()), *_])
        ):
            return True
    return False
