# SPDX-License-Identifier: Apache-2.0
"""Programs that print or transform text, with the little languages of sed and awk."""

from __future__ import annotations

import base64
import binascii
import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.redirects import open_for_reading
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, NAME, NET, clean, exact, unknown


def inputs(shell: Shell, call: Call, paths: list[str]) -> str:
    """Read operands, or the standard input where there are none."""
    own = call.stdin if call.stdin is not None else HOLE
    parts = [
        own if path in ("-", "/dev/stdin") else open_for_reading(shell, path) for path in paths
    ]
    return "".join(parts) if paths else own


def _parsed(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> Parsed:
    parsed = parse(call.args, frozenset((*entry.values, *entry.uses)), tuple(entry.alarms))
    catalog.apply(shell, call, entry, Parsed(parsed.flags, []))
    return parsed


def _endless(shell: Shell, parsed: Parsed) -> None:
    if any(operand in ("/dev/zero", "/dev/urandom", "/dev/random") for operand in parsed.operands):
        shell.find(Tier.DANGER, "resources", "it reads a device that never ends")


def _cat(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    _endless(shell, parsed)
    text = inputs(shell, call, parsed.operands)
    if call.name != "nl" and not parsed.has(*_CHANGES):
        return text
    if exact(text) and (call.name == "nl" or parsed.has("-n", "-b")):
        numbered = enumerate(text.splitlines(), start=1)
        return "".join(f"{number:6}\t{line}\n" for number, line in numbered)
    return NET if NET in text else NAME + "\n" if NAME in text else HOLE


_CHANGES = (
    "-n", "-b", "-A", "-E", "-T", "-v", "-e", "-t", "--number", "--number-nonblank", "--show-all",
    "--show-ends", "--show-tabs", "--show-nonprinting",
)  # fmt: skip
"""Options with which `cat` prints something else than it reads."""


def _pager(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    for word in parsed.operands:
        if word.startswith("+"):
            if "!" in word:
                shell.find(Tier.DANGER, "runs-text", f"`{call.name} +` runs a command")
                shell.run_text(word.partition("!")[2])
        else:
            shell.touch(How.READ, word, program=call.name)
    return inputs(shell, call, [])


def _head(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    if call.name == "tail" or not parsed.has("-c", "--bytes", "-n", "--lines"):
        _endless(shell, parsed)
    text = inputs(shell, call, parsed.operands)
    if re.search(r"\d(?:[GTPE]i?B?|\d{9,})$", parsed.value("-c", "--bytes")):
        shell.find(Tier.DANGER, "resources", f"`{call.name}` prints very much")
    if not exact(text):
        return text
    lines = text.splitlines(keepends=True)
    count = parsed.value("-n", "--lines") or next(
        (argument[1:] for argument in call.args if re.fullmatch(r"-\d+", argument)), "10"
    )
    if not re.fullmatch(r"[+-]?\d{1,6}", count):
        return text
    if call.name == "head":
        return "".join(lines[: int(count)])
    return "".join(
        lines[int(count) - 1 :] if count.startswith("+") else lines[-int(count.lstrip("-")) :]
    )


def _filter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    uses = entry.operands
    for at, path in enumerate(parsed.operands):
        catalog.use(shell, uses[min(at, len(uses) - 1)], path, call)
    reading = [
        one for at, one in enumerate(parsed.operands) if uses[min(at, len(uses) - 1)] is Use.READ
    ]
    text = inputs(shell, call, reading)
    if call.name == "cut" and exact(text):
        return _columns(parsed, text)
    if call.name == "rev" and exact(text):
        return "".join(line[::-1] + "\n" for line in text.splitlines())
    if NET in text:
        return NET
    return NAME + "\n" if NAME in text else HOLE


def _columns(parsed: Parsed, text: str) -> str:
    """Return what `cut` keeps of each line."""
    chosen = parsed.value("-c", "-b", "--characters", "--bytes") or parsed.value("-f", "--fields")
    match = re.fullmatch(r"(\d{0,5})(-?)(\d{0,5})", chosen)
    if match is None:
        return HOLE
    low = int(match[1] or 1) - 1
    high = int(match[3]) if match[3] else (None if match[2] else low + 1)
    if not parsed.has("-f", "--fields"):
        return "".join(line[low:high] + "\n" for line in text.splitlines())
    mark = parsed.value("-d", "--delimiter") or "\t"
    return "".join(mark.join(line.split(mark)[low:high]) + "\n" for line in text.splitlines())


def _xxd(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values)
    text = inputs(shell, call, parsed.operands[:1])
    if len(parsed.operands) > 1:
        catalog.use(shell, Use.WRITE, parsed.operands[1], call)
    if not parsed.has("-r", "-revert") or not exact(text):
        return NET if NET in text else HOLE
    digits = re.sub(
        r"\s|0x",
        "",
        text if parsed.has("-p", "-ps", "-plain") else re.sub(r"(?m)^\w+: |  .*$", "", text),
    )
    try:
        return clean(bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace"))
    except ValueError:
        return HOLE


def _base64(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, entry.values)
    text = inputs(shell, call, parsed.operands)
    if not exact(text):
        return NET if NET in text else HOLE
    decoding = parsed.has("-d", "-D", "--decode")
    raw = text.encode("utf-8", "replace")
    try:
        if call.name == "base32":
            done = base64.b32decode(raw.strip()) if decoding else base64.b32encode(raw)
        else:
            stripped = re.sub(rb"\s", b"", raw)
            done = (
                base64.b64decode(stripped + b"=" * (-len(stripped) % 4))
                if decoding
                else base64.b64encode(raw)
            )
    except (ValueError, binascii.Error):
        return HOLE
    return clean(done.decode("utf-8", "replace"))


def _cutpath(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = [argument for argument in call.args if not argument.startswith("-")]
    if not words:
        return ""
    head, _, tail = words[0].rstrip("/").rpartition("/")
    if call.name == "dirname":
        return (head or ("/" if words[0].startswith("/") else ".")) + "\n"
    ending = words[1] if len(words) > 1 else ""
    return (tail.removesuffix(ending) if ending else tail) + "\n"


_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def _facts(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, ("-d", "-s", "--date", "--set", "-r", "-f", "-e"))
    name = call.name
    if name == "date":
        _date(catalog, shell, call)
    if name == "printenv" and any(_SECRET_NAME.search(operand) for operand in parsed.operands):
        shell.find(Tier.FORBIDDEN, "secrets", "it prints a secret of the environment")
    if name in ("which", "whereis"):
        return "".join(f"/usr/bin/{operand}\n" for operand in parsed.operands)
    if name == "seq":
        if parsed.has("-f", "-s", "-w"):
            return HOLE
        numbers = [
            int(operand) for operand in parsed.operands if re.fullmatch(r"-?\d{1,6}", operand)
        ]
        if numbers and len(numbers) == len(parsed.operands):
            low, high = (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[-1])
            step = numbers[1] if len(numbers) == 3 and numbers[1] else 1
            made = range(low, high + (1 if step > 0 else -1), step)
            return "".join(f"{one}\n" for one in made[:300])
    if name == "yes" and not _piped(call):
        shell.find(Tier.DANGER, "resources", "`yes` never ends by itself")
    if name == "yes":
        return (" ".join(parsed.operands) or "y") + "\n"
    if name == "expr" and len(parsed.operands) == 1:
        return parsed.operands[0] + "\n"
    return HOLE


def _date(catalog: Catalog, shell: Shell, call: Call) -> None:
    parsed = parse(
        call.args,
        ("-d", "--date", "-s", "--set", "-r", "--reference", "-f", "--file"),
        ("--debug",),
    )
    if parsed.has("-s", "--set"):
        shell.find(Tier.DANGER, "system", "`date -s` sets the clock")
    for path in parsed.values("-f", "--file", "-r", "--reference"):
        catalog.use(shell, Use.READ, path, call)


def _calculator(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """`bc` and `dc`: what they print of a file they cannot read; `dc` runs lines with `!`."""
    parsed = parse(call.args, frozenset((*entry.values, *entry.uses)))
    catalog.apply(shell, call, entry, parsed)
    texts = [*parsed.values("-e", "--expression"), call.stdin or ""]
    texts += [
        shell.held(operand) or "" for operand in (*parsed.operands, *parsed.values("-f", "--file"))
    ]
    for text in texts if call.name == "dc" else ():
        for match in _DC_RUNS.finditer(text):
            shell.find(Tier.DANGER, "runs-text", "`dc` runs a command")
            shell.run_text(match[1])
    return HOLE


_DC_RUNS = re.compile(r"!(?![<>=])([^\n]++)")


def _piped(call: Call) -> bool:
    """Return whether a command is a part of a pipeline or a substitution, which ends it."""
    node = call.node
    while node is not None and (node := node.parent) is not None:
        if node.type in ("pipeline", "command_substitution", "process_substitution"):
            return True
    return call.node is None


def _grep(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    operands = list(parsed.operands)
    wanted = parsed.value("-e", "--regexp")
    if not parsed.has("-e", "--regexp", "-f", "--file", "--files", "--type-list") and operands:
        wanted = operands.pop(0)
    leaks.searched(shell, call, wanted)
    recursive = parsed.has("-r", "-R", "--recursive", "--dereference-recursive") or call.name in (
        "rg",
        "ag",
        "ack",
    )
    for path in operands:
        if path != "-":
            shell.touch(How.READ, path, program=call.name)
            if recursive:
                leaks.swept(shell, path, call.name)
    if recursive and not operands and call.stdin is None:
        leaks.swept(shell, ".", call.name)
    if NET in (call.stdin or ""):
        return NET
    if parsed.has("-l", "-L", "--files", "--files-with-matches", "--files-without-match"):
        return NAME + "\n"
    if not operands and call.stdin is not None and not recursive:
        return call.stdin if not exact(call.stdin) else HOLE
    return HOLE


def _sort(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = _parsed(catalog, shell, call, entry)
    for path in parsed.operands:
        if path != "-":
            shell.touch(How.READ, path, program="sort")
    text = inputs(shell, call, [operand for operand in parsed.operands if operand != "/dev/null"])
    target = parsed.value("-o", "--output")
    if target:
        shell.facts.writes = True
        if parsed.operands and all(operand == "/dev/null" for operand in parsed.operands):
            shell.touch(How.EMPTY, target, program="sort")
    return "" if target else text


def _tr(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args)
    text = call.stdin if call.stdin is not None else HOLE
    if (
        not exact(text)
        or not parsed.operands
        or not all(exact(operand) for operand in parsed.operands)
    ):
        return text if unknown(text) else HOLE
    first = _ranges(parsed.operands[0])
    if parsed.has("-d", "--delete"):
        return "".join(one for one in text if one not in first)
    second = _ranges(parsed.operands[1]) if len(parsed.operands) > 1 else first
    second += second[-1:] * (len(first) - len(second))
    return (
        text.translate({ord(a): b for a, b in zip(first, second, strict=False)}) if second else text
    )


def _ranges(text: str) -> str:
    named = {
        "[:lower:]": "a-z",
        "[:upper:]": "A-Z",
        "[:digit:]": "0-9",
        "[:alpha:]": "A-Za-z",
        "[:space:]": " \t\n",
    }
    for name, body in named.items():
        text = text.replace(name, body)
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return re.sub(
        r"(.)-(.)",
        lambda f: "".join(map(chr, range(ord(f[1]), min(ord(f[2]), ord(f[1]) + 200) + 1))),
        text,
    )


READERS = {
    "cat": _cat,
    "head": _head,
    "pager": _pager,
    "filter": _filter,
    "xxd": _xxd,
    "base64": _base64,
    "cutpath": _cutpath,
    "facts": _facts,
    "calculator": _calculator,
    "grep": _grep,
    "sort": _sort,
    "tr": _tr,
}
