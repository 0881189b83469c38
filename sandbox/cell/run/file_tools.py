# SPDX-License-Identifier: Apache-2.0
"""The file tools (Read, Write, Edit, MultiEdit, Glob, Grep, LS), run inside the cell.

They act with the rights of any command of the call: what the cell cannot see, they cannot see, and
what they write goes through gate 2. Results go to standard output, problems as one line to standard
error with exit status 1.
"""

from __future__ import annotations

import fnmatch
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

READ_LINES = 2000
LINE_CHARACTERS = 2000
MATCHES = 1000
FILE_BYTES = 64 * 1024 * 1024
SKIPPED = {".git", "node_modules", "__pycache__", ".venv"}


class ToolError(Exception):
    """The tool cannot do what was asked; the message is for the agent."""


def main(tool: str, params: dict[str, Any]) -> int:
    """Run one tool; return its exit status."""
    try:
        handler = _TOOLS[tool]
        text = handler(params)
    except ToolError as error:
        return _complain(str(error))
    except UnicodeError as error:
        return _complain(f"not valid UTF-8: {error}")
    except OSError as error:
        return _complain(f"{error.strerror}: {error.filename or params.get('file_path', '')}")
    except KeyError as error:
        return _complain(f"parameter {error} is missing")
    _write_out(1, text)
    return 0


def _complain(text: str) -> int:
    _write_out(2, text + "\n")
    return 1


def _write_out(fd: int, text: str) -> None:
    data = text.encode("utf-8", "surrogateescape")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BrokenPipeError:
        return


def _slurp(path: str) -> str:
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise ToolError(f"{path}: larger than {FILE_BYTES} bytes; use Bash")
    return data.decode("utf-8", "surrogateescape")


def _read(params: dict[str, Any]) -> str:
    path = params["file_path"]
    text = _slurp(path)
    if "\0" in text:
        return f"{path}: binary file of {os.path.getsize(path)} bytes\n"
    lines = (text.replace("\r\n", "\n") if _ends_in_crlf(text) else text).split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    first = max(1, params.get("offset") or 1)
    count = params.get("limit") or READ_LINES
    part = lines[first - 1 : first - 1 + count]
    out = [f"{number:6d}\t{_short(line)}" for number, line in enumerate(part, first)]
    if first - 1 + count < len(lines):
        out.append(f"[lines {first} to {first + len(part) - 1} of {len(lines)}]")
    return "\n".join(out) + ("\n" if out else "")


def _ends_in_crlf(text: str) -> bool:
    """Return whether every line of a text ends in CR LF, as on Windows."""
    ends = text.count("\n")
    return ends > 0 and text.count("\r\n") == ends == text.count("\r")


def _short(line: str) -> str:
    return line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + " [line cut]"


def _put(path: str, text: str) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def _write(params: dict[str, Any]) -> str:
    path, text = params["file_path"], params["content"]
    known = os.path.exists(path)
    _put(path, text)
    return f"{'replaced' if known else 'created'} {path} ({len(text.splitlines())} lines)\n"


def _replace(text: str, step: dict[str, Any], path: str) -> str:
    old, new = step["old_string"], step["new_string"]
    if old == new:
        raise ToolError(f"{path}: old_string and new_string are the same")
    if old == "":
        if text:
            raise ToolError(f"{path}: old_string is empty, but the file is not")
        return str(new)
    if "\r" not in old + new and _ends_in_crlf(text):  # `Read` shows such lines without the CR
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    found = text.count(old)
    if found == 0:
        raise ToolError(f"{path}: old_string was not found; read the file again")
    if found > 1 and not step.get("replace_all"):
        raise ToolError(
            f"{path}: old_string is there {found} times; give more context or set replace_all"
        )
    return text.replace(old, new)


def _edit_steps(path: str, steps: list[dict[str, Any]]) -> str:
    if not steps:
        raise ToolError(f"{path}: no edits are given")
    text = _slurp(path) if os.path.exists(path) or steps[0].get("old_string") else ""
    for step in steps:
        text = _replace(text, step, path)
    _put(path, text)
    return f"edited {path} ({len(steps)} replacement{'s' if len(steps) > 1 else ''})\n"


def _edit(params: dict[str, Any]) -> str:
    return _edit_steps(params["file_path"], [params])


def _multi_edit(params: dict[str, Any]) -> str:
    return _edit_steps(params["file_path"], list(params.get("edits") or ()))


def _walk(root: str) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        for name in sorted(files):
            yield os.path.relpath(os.path.join(folder, name), root)


def _glob_regex(pattern: str) -> re.Pattern[str]:
    """Translate a glob with `**`, `*`, `?`, `[...]` and `{a,b}` to a regular expression."""
    out, index = [], 0
    while index < len(pattern):
        rest = pattern[index:]
        if rest.startswith("**/"):
            out.append("(?:[^/]+/)*")
            index += 3
        elif rest.startswith("**"):
            out.append(".*")
            index += 2
        elif rest[0] == "*":
            out.append("[^/]*")
            index += 1
        elif rest[0] == "?":
            out.append("[^/]")
            index += 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            body = rest[1:end].replace("\\", "\\\\")
            out.append(f"[{'^' + body[1:] if body[0] in '!^' else body}]")
            index += end + 1
        elif rest[0] == "{" and "}" in rest:
            end = rest.index("}")
            words = rest[1:end].split(",")
            out.append("(?:" + "|".join(_glob_regex(word).pattern[:-2] for word in words) + ")")
            index += end + 1
        else:
            out.append(re.escape(rest[0]))
            index += 1
    try:
        return re.compile("".join(out) + r"\Z")
    except re.error as error:
        raise ToolError(f"pattern `{pattern}`: {error}") from None


def _glob(params: dict[str, Any]) -> str:
    root = params.get("path") or "."
    wanted = _glob_regex(params["pattern"])
    if not os.path.isdir(root):
        raise ToolError(f"{root}: no such directory")
    found = [path for path in _walk(root) if wanted.match(path)]
    found.sort(key=lambda path: -os.lstat(os.path.join(root, path)).st_mtime_ns)
    shown = [os.path.normpath(os.path.join(root, path)) for path in found[:MATCHES]]
    if len(found) > MATCHES:
        shown.append(f"[{MATCHES} of {len(found)} shown]")
    return "".join(line + "\n" for line in shown) or "no files found\n"


def _grep(params: dict[str, Any]) -> str:
    mode = params.get("output_mode") or "files_with_matches"
    flags = {"files_with_matches": ["--files-with-matches"], "count": ["--count"], "content": []}
    argv = ["rg", "--no-config", "--color=never", "--no-messages", *flags[mode]]
    if params.get("-i"):
        argv.append("--ignore-case")
    if mode == "content":
        argv.append("--line-number" if params.get("-n") else "--no-line-number")
        for key in ("-A", "-B", "-C"):
            if params.get(key) is not None:
                argv.append(f"{key}{int(params[key])}")
    if params.get("multiline"):
        argv += ["--multiline", "--multiline-dotall"]
    for key in ("glob", "type"):
        if params.get(key):
            argv.append(f"--{key}={params[key]}")
    argv += ["--sort=path", "-e", params["pattern"]]
    if params.get("path"):
        argv += ["--", params["path"]]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError:
        raise ToolError("ripgrep (rg) is not in this cell image; use Bash with grep") from None
    if done.returncode > 1:
        raise ToolError(done.stderr.decode("utf-8", "replace").strip() or "rg failed")
    lines = done.stdout.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    limit = params.get("head_limit") or len(lines)
    return "".join(lines[:limit]) or "no matches found\n"


def _ls(params: dict[str, Any]) -> str:
    root = params.get("path") or "."
    ignored = list(params.get("ignore") or ())
    out = []
    with os.scandir(root) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if any(fnmatch.fnmatch(entry.name, pattern) for pattern in ignored):
                continue
            mark = "@" if entry.is_symlink() else "/" if entry.is_dir() else ""
            out.append(f"{entry.name}{mark}\n")
    return "".join(out) or "empty directory\n"


_TOOLS = {
    "Read": _read,
    "Write": _write,
    "Edit": _edit,
    "MultiEdit": _multi_edit,
    "Glob": _glob,
    "Grep": _grep,
    "LS": _ls,
}

if __name__ == "__main__":
    import json

    sys.exit(main(sys.argv[1], json.load(sys.stdin)))
