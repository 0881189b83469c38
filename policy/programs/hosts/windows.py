# SPDX-License-Identifier: Apache-2.0
"""Windows commands as text: cmd and PowerShell (safety-guardrails.md, Blocked Patterns)."""

from __future__ import annotations

import base64
import binascii
import re

from policy.facts import How
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs
from policy.shell.interpreter import Shell
from policy.shell.recursion import FORK_BOMB
from policy.shell.state import Call
from policy.shell.syntax.quoting import source
from policy.values.partial import HOLE, NET, clean, shown

_ENCODED = re.compile(r"^[-/]e(?:c|nc|ncodedcommand|n|nco\w*)?$", re.IGNORECASE)
_TREE = re.compile(
    r"\b(?:rd|rmdir|del|erase|deltree)\b[^&|;\n]{0,500}\s/s\b"
    r"|\b(?:remove-item|ri|rm|rmdir|del|erase|rd)\b[^;|\n]{0,500}\s-r(?:ec(?:u(?:r(?:s(?:e)?)?)?)?)?\b"
    r"|\|\s*(?:remove-item|ri|del|rm)\b|\brm\s+-\w*r|\[io\.directory\]::delete\([^)]*(?:true|,\s*1)|clear-recyclebin",
    re.IGNORECASE,
)
_FORMAT = re.compile(
    r"(?:^|[&|;\s(])format(?:\.com)?\s+\w:|format-volume|clear-disk|initialize-disk|diskpart|cipher\s+/w",
    re.IGNORECASE,
)
_SHUTDOWN = re.compile(
    r"(?:^|[&|;\s(])shutdown(?:\.exe)?\s|stop-computer|restart-computer", re.IGNORECASE
)
_REMOTE = re.compile(
    r"(?:invoke-webrequest|invoke-restmethod|iwr|irm|curl|wget|downloadstring|downloadfile|downloaddata|webclient|start-bitstransfer)"
    r"[\s\S]{0,500}(?:\|\s*(?:iex|invoke-expression)|start-process|&\s*\$)|(?:iex|invoke-expression)[\s\S]{0,500}(?:iwr|irm|invoke-webrequest|invoke-restmethod|downloadstring|webclient|http)",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"set-executionpolicy|-(?:ep|exec\w*policy|ex\w*)\s+(?:bypass|unrestricted)|set-mppreference|add-mppreference|disable-windowsoptionalfeature|netsh\s+advfirewall|set-netfirewallprofile|bcdedit|vssadmin\s+delete|wevtutil\s+cl|reg\s+(?:add|delete|import)|(?:set|new|remove)-itemproperty|hklm:|hkcu:",
    re.IGNORECASE,
)
_PRIVILEGE = re.compile(r"\brunas\b|-verb\s+runas|\bsudo\b|\bpsexec\b", re.IGNORECASE)
_DELETE = re.compile(r"\b(?:del|erase|rd|rmdir|remove-item|ri)\b", re.IGNORECASE)
_WRITE = re.compile(
    r"\b(?:set-content|add-content|out-file|copy|xcopy|robocopy|move|ren|rename|copy-item|move-item|new-item|clear-content|tee-object|sc|ac|ni|cpi|mi|clc|writealltext|writealllines|appendalltext|type\s+nul)\b|>",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"invoke-webrequest|invoke-restmethod|\biwr\b|\birm\b|webclient|\bcurl\b|\bwget\b|test-netconnection|net\.sockets|bitsadmin|certutil\s+-urlcache",
    re.IGNORECASE,
)
_BOMB = re.compile(r"%0\s*\|\s*%0|\bstart\b[^&|\n]{0,40}%0")
_WORD = re.compile(r"[^\s'\"(),;|&<>=]+")


def _windows(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    words = [shown(argument) for argument in call.args]
    text = " ".join(words)
    for at, word in enumerate(words[:-1]):
        if _ENCODED.match(word):
            text += " " + _decoded(words[at + 1])
    if call.name not in ("cmd", "powershell", "pwsh"):
        text = f"{call.name} {text}"
    if call.name in ("iex", "Invoke-Expression") and call.stdin and NET in call.stdin:
        shell.find(Tier.FORBIDDEN, "remote-script", "it runs what it downloads")
    if call.node is not None:
        text += "\n" + source(call.node)
    if call.stdin:
        text += "\n" + shown(call.stdin)
    judge(shell, text)
    return NET if _NETWORK.search(text) else HOLE


def _decoded(text: str) -> str:
    try:
        return clean(base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-16-le", "replace"))
    except (ValueError, binascii.Error):
        return ""


_MOST_TEXT = 16 * 1024
"""Characters of commands that are looked at, half of them at the end."""


def judge(shell: Shell, text: str) -> None:
    """Record what Windows commands show."""
    if len(text) > _MOST_TEXT:
        shell.find(Tier.DANGER, "opaque", "the program is too long to be read here")
        text = text[: _MOST_TEXT // 2] + "\n" + text[-_MOST_TEXT // 2 :]
    rules = (
        (_BOMB, Tier.FORBIDDEN, "resources", FORK_BOMB),
        (_TREE, Tier.FORBIDDEN, "recursive-delete", "it deletes whole trees"),
        (_FORMAT, Tier.FORBIDDEN, "wipe", "it formats or wipes a disk"),
        (_SHUTDOWN, Tier.FORBIDDEN, "shutdown", "it stops or restarts the machine"),
        (_REMOTE, Tier.FORBIDDEN, "remote-script", "it runs what it downloads"),
        (_POLICY, Tier.FORBIDDEN, "security", "it changes protections or the registry"),
        (_PRIVILEGE, Tier.FORBIDDEN, "privilege", "it takes another user's rights"),
        (_DELETE, Tier.DANGER, "delete", "it deletes files"),
        (_NETWORK, Tier.DANGER, "network", "it talks to other machines"),
    )
    for wanted, tier, rule, because in rules:
        if wanted.search(text):
            shell.find(tier, rule, because)
    how = How.WRITE if _WRITE.search(text) else How.DELETE if _DELETE.search(text) else How.READ
    for word in _WORD.findall(text):
        path = word.replace("\\", "/")
        if "/" not in path.lstrip("/") and "." not in path:
            continue
        if path.startswith("/") and len(path) <= 3:
            continue
        path = re.sub(r"^[A-Za-z]:/+", "/", path)
        if (
            "\\" in word
            and how is How.WRITE
            and re.search(r"(?i)(?:^|/)\.(?:git|github|ssh)/", path)
        ):
            shell.find(
                Tier.FORBIDDEN,
                "windows",
                f"it writes `{word}` in a spelling that checks on names do not see",
            )
        if (
            re.match(r"(?i)/(?:windows|program files|programdata|system32)", path)
            and how is not How.READ
        ):
            shell.find(Tier.FORBIDDEN, "system", "it changes files of the system")
        shell.touch(how, path, program="windows")


READERS = {"windows": _windows}
