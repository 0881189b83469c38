# SPDX-License-Identifier: Apache-2.0
"""Archives and copies of trees: what they read, where they unpack, and what they run."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.redirects import open_for_reading, store
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE, NET

_RUNS = (
    "-I",
    "--use-compress-program",
    "--to-command",
    "--rsh-command",
    "--info-script",
    "--new-volume-script",
    "--rmt-command",
    "-F",
)


def _tar(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    words = list(call.args)
    if words and re.fullmatch(r"[A-Za-z]+", words[0]) and not words[0].startswith("-"):
        words[0] = "-" + words[0]
    if words and re.fullmatch(r"-[A-Za-z]*f[A-Za-z]+", words[0]) and words[0][-1] != "C":
        words[0] = words[0].replace("f", "") + "f"  # old style: the file name follows the cluster
    parsed = parse(
        words,
        entry.values,
        (
            "--extract",
            "--create",
            "--list",
            "--get",
            "--delete",
            "--remove-files",
            "--append",
            "--update",
        ),
    )
    shell.find(entry.tier, entry.rule, f"`tar`: {entry.because}")
    shell.facts.writes = True
    for text in parsed.values(*_RUNS):
        shell.find(Tier.DANGER, "runs-text", "`tar` runs a program")
        shell.run_text(text)
    for text in parsed.values("--checkpoint-action"):
        shell.find(Tier.DANGER, "runs-text", "`tar --checkpoint-action` can run a program")
        if text.startswith("exec="):
            shell.run_text(text[5:])
    place = parsed.values("-C", "--directory")
    archive = parsed.value("-f", "--file")
    for path in place:
        shell.touch(How.EXIST, path, program="tar")
    for path in parsed.values("-T", "--files-from", "-X", "--exclude-from"):
        shell.touch(How.READ, path)
    for path in parsed.values("--index-file", "-g", "--listed-incremental", "--volno-file"):
        catalog.use(shell, Use.WRITE, path, call)
    base = place[-1] + "/" if place else ""
    for path in parsed.values("--one-top-level"):
        shell.touch(How.WRITE, base + path, program="tar")
        base = f"{base}{path}/"
    _renamed(catalog, shell, call, (base, parsed.has("-x", "--extract", "--get")))
    if parsed.has("-x", "--extract", "--get"):
        packed = call.stdin
        if archive and archive != "-":
            packed = open_for_reading(shell, archive)
        if leaks.arrives(packed):
            leaks.foreign(shell, place[-1] if place else ".")
        if not parsed.has("-O", "--to-stdout"):
            shell.touch(How.WRITE, place[-1] if place else ".", program="tar")
            for path in parsed.operands:
                shell.touch(How.WRITE, base + path, program="tar")
    elif parsed.has("-t", "--list", "-d", "--diff", "--compare"):
        if archive and archive != "-":
            shell.touch(How.READ, archive)
    else:
        if archive and archive != "-":
            catalog.use(shell, Use.WRITE, archive, call)
            if ":" in archive and "--force-local" not in call.args:
                shell.find(Tier.DANGER, "network", "`tar` writes to another machine")
        for path in parsed.operands:
            shell.touch(How.READ, path if path.startswith("/") else base + path, program="tar")
            leaks.swept(shell, path if path.startswith("/") else base + path, "tar")
            if parsed.has("--remove-files", "--delete"):
                shell.find(Tier.DANGER, "delete", "`tar --remove-files` deletes what it packed")
                shell.touch(How.DELETE, path, program="tar")
    return NET if NET in (call.stdin or "") else HOLE


_RENAMES = re.compile(r"s?([^\w\s\\])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1\w*", re.DOTALL)
_LONGEST_RENAME = 1024


def _renamed(catalog: Catalog, shell: Shell, call: Call, extracts: tuple[str, bool]) -> None:
    """Record the names that members of an archive are given as they are unpacked."""
    base, unpacks = extracts
    parsed = parse(call.args, ("--transform", "--xform", "-s"))
    texts = parsed.values("--transform", "--xform", *(("-s",) if call.name != "tar" else ()))
    for text in texts if unpacks else ():
        for match in _RENAMES.finditer(text[:_LONGEST_RENAME]):
            name = re.sub(r"\\(.)", r"\1", match[3])
            catalog.use(shell, Use.WRITE, base + name.replace("&", ""), call)


def _zip(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        ("-TT", "--unzip-command", "-b", "-t", "-tt", "-n", "-x", "-i", "-P", "-s", "-O", "--out"),
    )
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    for text in parsed.values("-TT", "--unzip-command"):
        shell.find(Tier.DANGER, "runs-text", "`zip -TT` runs a program")
        shell.run_text(text)
    operands = parsed.operands
    if call.name in ("7z", "7za", "7zr", "rar", "jar") and operands:
        verb, operands = operands[0], operands[1:]
        if verb in ("l", "t", "tf", "v", "i"):
            for path in operands:
                shell.touch(How.READ, path)
            return HOLE
        if verb in ("x", "e", "xf"):
            target = next(
                (argument[2:] for argument in call.args if argument.startswith("-o")), "."
            )
            shell.touch(How.WRITE, target, program=call.name)
            for path in operands[:1]:
                shell.touch(How.READ, path)
            for path in operands[1:]:
                shell.touch(How.WRITE, f"{target}/{path}", program=call.name)
            return HOLE
    if {"-sdel", "-df", "-dr"} & set(call.args) and call.name != "zip":
        shell.find(Tier.DANGER, "delete", f"`{call.name}` deletes what it packed")
        for path in operands[1:]:
            shell.touch(How.DELETE, path, program=call.name)
    for path in (*operands[:1], *parsed.values("-O", "--out")):
        catalog.use(shell, Use.WRITE, path, call)
    for path in operands[1:]:
        shell.touch(How.READ, path)
        leaks.swept(shell, path, call.name)
        if parsed.has("-m", "--move"):
            shell.find(Tier.DANGER, "delete", "`zip -m` deletes what it packed")
            shell.touch(How.DELETE, path, program="zip")
    return HOLE


def _unzip(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, ("-d", "-x", "-P"))
    packed = [open_for_reading(shell, path) for path in parsed.operands[:1]]
    if parsed.has("-l", "-t", "-v", "-Z", "-p", "-c") or call.name == "bsdcat":
        return NET if any(leaks.arrives(one) for one in packed) else HOLE
    if any(leaks.arrives(one) for one in packed):
        leaks.foreign(shell, parsed.value("-d") or ".")
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    target = parsed.value("-d") or "."
    shell.touch(How.WRITE, target, program=call.name)
    for path in parsed.operands[1:]:
        shell.touch(How.WRITE, f"{target}/{path}", program=call.name)
    return HOLE


def _gzip(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(call.args, ("-S", "--suffix", "-o", "-T", "--threads", "-b", "-D"))
    for path in parsed.operands:
        shell.touch(How.READ, path, program=call.name)
    for path in parsed.values("-o"):
        catalog.use(shell, Use.WRITE, path, call)
    if parsed.operands and not parsed.has(
        "-c", "--stdout", "--to-stdout", "-l", "--list", "-t", "--test"
    ):
        keeps = parsed.has("-k", "--keep") or (
            call.name in ("zstd", "unzstd", "brotli", "lz4")
            and not parsed.has("--rm", "-j", "--rm=")
        )
        shell.facts.writes = True
        for path in parsed.operands:
            shell.touch(How.WRITE, path + ".gz", program=call.name)
            if not keeps:
                shell.find(
                    Tier.DANGER, "delete", f"`{call.name}` replaces the file by its compressed form"
                )
                shell.touch(How.DELETE, path, program=call.name)
        shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    return NET if NET in (call.stdin or "") else HOLE


_REMOTE = re.compile(r"^(?:[\w.-]+@)?[\w.-]+:(?!\\)|^\w+://")


_MERGED = re.compile(r"(?:dir-merge|merge|[.:])[\w,+-]*[ _]+(\S+)")
"""A rule of `rsync --filter` that reads further rules from a file."""
_RCLONE_DELETES = (["purge"], ["delete"], ["rmdirs"], ["cleanup"], ["sync"])


def _rsync(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        (
            "-e",
            "--rsh",
            "--rsync-path",
            "--exclude",
            "--include",
            "--exclude-from",
            "--include-from",
            "--files-from",
            "--log-file",
            "--temp-dir",
            "-T",
            "--partial-dir",
            "--backup-dir",
            "--link-dest",
            "--compare-dest",
            "--password-file",
            "-f",
            "--filter",
            "--write-batch",
            "--bwlimit",
            "--chmod",
            "--chown",
            "--port",
            "--out-format",
        ),
    )
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    for text in parsed.values("-e", "--rsh", "--rsync-path"):
        shell.find(Tier.DANGER, "runs-text", "`rsync` runs a program")
        shell.run_text(text)
    for rule in parsed.values("-f", "--filter"):
        if (found := _MERGED.match(rule)) is not None:
            shell.touch(How.READ, found[1], program=call.name)
    for path in parsed.values("--log-file", "--write-batch", "--backup-dir", "-T", "--temp-dir"):
        catalog.use(shell, Use.WRITE, path, call)
    operands = parsed.operands
    if call.name != "rsync" and operands:
        operands = operands[1:]
    if any(_REMOTE.match(operand) for operand in operands):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`{call.name}` copies to or from another machine")
    if operands and not _REMOTE.match(operands[-1]):
        for path in operands[:-1]:
            if _REMOTE.match(path):
                name = re.split(r"[/:]", path.rstrip("/"))[-1]
                for arrived in (operands[-1], f"{operands[-1].rstrip('/')}/{name}"):
                    store(shell, arrived, NET)
                if operands[-1].rstrip("/") not in (".", ""):
                    leaks.foreign(shell, operands[-1])
    if call.name == "rclone" and parsed.operands[:1] in _RCLONE_DELETES:
        said = f"`rclone {parsed.operands[0]}` deletes a whole tree"
        shell.find(Tier.FORBIDDEN, "recursive-delete", said)
    for path in operands[:-1]:
        if not _REMOTE.match(path):
            shell.touch(How.READ, path, program=call.name)
            leaks.swept(shell, path, call.name)
            if parsed.has("--remove-source-files"):
                shell.find(Tier.DANGER, "delete", "it deletes what it copied")
                shell.touch(How.DELETE, path)
    if operands and not _REMOTE.match(operands[-1]):
        shell.touch(How.WRITE, operands[-1], program=call.name)
        for path in operands[:-1]:
            base = path.rstrip("/").rsplit("/", 1)[-1]
            shell.touch(How.WRITE, f"{operands[-1]}/{base}", program=call.name)
        if any(argument.startswith("--del") for argument in call.args):
            shell.find(
                Tier.FORBIDDEN, "recursive-delete", "`rsync --delete` deletes what the source lacks"
            )
            shell.touch(How.TREE, operands[-1], program=call.name)
    return HOLE


def _patch(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        (
            "-p",
            "-i",
            "--input",
            "-d",
            "--directory",
            "-o",
            "--output",
            "-r",
            "--reject-file",
            "-D",
            "-F",
            "-B",
            "-Y",
            "-z",
            "-V",
            "-g",
        ),
    )
    for path in parsed.values("-i", "--input"):
        shell.touch(How.READ, path)
    for path in parsed.values("-o", "--output", "-r", "--reject-file"):
        catalog.use(shell, Use.WRITE, path, call)
    for path in parsed.operands[:1]:
        shell.touch(How.READ if parsed.has("--dry-run") else How.WRITE, path, program="patch")
    if parsed.has("--dry-run"):
        return HOLE
    text = call.stdin or ""
    for match in re.finditer(r"(?m)^\+\+\+ (?:b/)?([^\t\n]+)", text):
        shell.touch(How.WRITE, match[1], program="patch")
    shell.find(entry.tier, entry.rule, f"`patch`: {entry.because}")
    shell.facts.writes = True
    return HOLE


READERS = {
    "tar": _tar,
    "zip": _zip,
    "unzip": _unzip,
    "gzip": _gzip,
    "rsync": _rsync,
    "patch": _patch,
}
