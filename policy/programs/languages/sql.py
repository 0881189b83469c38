# SPDX-License-Identifier: Apache-2.0
"""Database clients: their statements are looked at, wherever they come from."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE

_TEXTS = (
    "-c",
    "--command",
    "-e",
    "--execute",
    "--eval",
    "-q",
    "--query",
    "-Q",
    "-cmd",
    "--init-command",
)
_BANG = re.compile(
    r"(?m)^[^\S\n]*+(?:\\!|\.(?:shell|system)|system)\s+(.+)|\\copy\b.*\b(?:program)\s+'([^']+)'|copy\b[^;]*\bprogram\s+'([^']+)'",
    re.IGNORECASE,
)
_OUT = re.compile(
    r"(?m)^[^\S\n]*+(?:\\o|\.(?:output|once|backup|save|log|excel))\s+(?:\w+\s+)?['\"]?([^'\"\s]+)|copy\b[^;]*?\bto\s+'([^']+)'|into\s+(?:outfile|dumpfile)\s+'([^']+)'|writefile\s*\(\s*'([^']+)'|vacuum\s+into\s+'([^']+)'|attach\s+(?:database\s+)?'([^']+)'",
    re.IGNORECASE,
)
_IN = re.compile(
    r"(?m)^[^\S\n]*+(?:\\i|\\ir|\.(?:read|import|restore|open|load))\s+['\"]?([^'\"\s]+)|(?:load_file|readfile|pg_read_file|load_extension)\s*\(\s*'([^']+)'",
    re.IGNORECASE,
)


_DROPS = re.compile(
    r"(?:^|\s)(?:(?:\w+:)*db:(?:drop|reset|purge|wipe|truncate_all|migrate:reset|schema:load)\S*"
    r"|ecto\.(?:drop|reset)|schema:drop|migrate:(?:fresh|reset)|db:wipe|sqlflush|reset_db"
    r"|drop-all|dropall|--force-reset|migrate\s+reset|database\s+drop|doctrine:(?:database|schema):drop"
    r"|migrate:undo:all|migrate:rollback\s+--all|downgrade\s+base|delete-table|droptable|db\s+reset)(?:\s|$)",
    re.IGNORECASE,
)
_FLUSHES = re.compile(r"(?:manage\.py|django-admin)\s(?:.*\s)?(?:flush|reset_db)(?:\s|$)")


def drops(shell: Shell, call: Call) -> None:
    """Record that a task of a framework drops what a database holds."""
    text = " ".join((call.name, *call.args))
    if _DROPS.search(text) or _FLUSHES.search(text):
        shell.find(Tier.FORBIDDEN, "drop", f"`{call.name}` drops what a database holds")


def statements(catalog: Catalog, shell: Shell, call: Call, text: str) -> None:
    """Record what statements do."""
    catalog.statements(shell, text)
    for match in _BANG.finditer(text):
        shell.find(Tier.DANGER, "runs-text", "a statement runs a program")
        shell.run_text(match[1] or match[2] or match[3] or "")
    for match in _OUT.finditer(text):
        catalog.use(shell, Use.WRITE, next((group for group in match.groups() if group), ""), call)
    for match in _IN.finditer(text):
        shell.touch(How.READ, match[1] or match[2] or "", program=call.name)


def _database(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.facts.writes = True
    if call.args in (("--version",), ("-V",), ("--help",)):
        return HOLE
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    drops(shell, call)
    if call.name in ("flyway", "dbmate", "bq") and {"clean", "drop", "rm"} & set(call.args):
        shell.find(Tier.FORBIDDEN, "drop", f"`{call.name}` drops what a database holds")
    if call.name in ("dropdb", "dropuser"):
        shell.find(Tier.FORBIDDEN, "drop", f"`{call.name}` drops what a database holds")
    if call.name == "mysqladmin" and "drop" in call.args:
        shell.find(Tier.FORBIDDEN, "drop", "`mysqladmin drop` drops a database")
    parsed = parse(call.args, entry.values)
    texts = parsed.values(*_TEXTS)
    local = call.name in ("sqlite3", "sqlite", "duckdb", "litecli")
    if local and parsed.operands:
        path = parsed.operands[0]
        shell.touch(How.READ, path, program=call.name)
        text = " ".join(parsed.operands[1:])
        if re.search(
            r"\b(?:insert|update|delete|create|alter|drop|replace|vacuum|pragma\s+\w+\s*=|attach)\b|^\s*\.",
            text,
            re.IGNORECASE,
        ) or (not text and call.stdin):
            shell.touch(How.WRITE, path, program=call.name)
        texts += parsed.operands[1:]
    else:
        texts.append(" ".join(parsed.operands))
    if call.stdin is not None:
        texts.append(call.stdin)
    for path in (*parsed.values("-f", "--file"), *parsed.values("-init")):
        content = shell.held(path)
        shell.touch(How.WRITE if "dump" in call.name else How.READ, path, program=call.name)
        if content is not None:
            texts.append(content)
    for path in parsed.values(
        "-o", "--output", "-L", "--log-file", "--result-file", "--tee", "--out",
        *(("-r",) if call.name == "mysqldump" else ()),
    ):  # fmt: skip
        catalog.use(shell, Use.WRITE, path, call)
    for text in texts:
        statements(catalog, shell, call, text)
    return HOLE


READERS = {"database": _database}
