# SPDX-License-Identifier: Apache-2.0
"""What gives secrets away, or a shell to another machine, across the parts of one text."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.shell.syntax.quoting import source
from policy.values.partial import NET, unknown

SECRET_VARIABLE = re.compile(
    r"(?:^|_)(?:(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|DEPLOY|SERVICE)_?KEY(?:_ID)?"
    r"|(?<!MAX_)(?<!MIN_)(?<!NUM_)(?<!TOTAL_)(?<!INPUT_)(?<!OUTPUT_)(?<!PROMPT_)TOKENS?|SECRETS?|PASSWORD"
    r"|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:_(?!(?:COUNT|LIMIT|SIZE|TYPE|NAMES?|LEN|LENGTH|MAX|MIN|BUDGET"
    r"|USAGE|TOTAL|TTL|URL|FILE|PATH|DIR|REGEX|PATTERN|FORMAT)$)|$)"
)
"""Names of environment variables that hold a secret."""
_NAMED = re.compile(r"\$\{?([A-Z_][A-Z0-9_]*)(?![\w:]|\+)")
_DUMPS = frozenset(
    (("env",), ("printenv",), ("set",), ("export",), ("export", "-p"), ("declare",),
     ("declare", "-p"), ("declare", "-x"), ("declare", "-px"), ("declare", "-xp"),
     ("compgen", "-v"), ("compgen", "-e"), ("env", "-0"), ("printenv", "-0"),
     ("typeset",), ("typeset", "-p"))
)  # fmt: skip
"""Calls that print every variable of the environment."""
_WANTED = re.compile(
    r"(?i)token|secret|passw|credential|api_?key|access_?key|private_?key|_key\b|^\^?aws|^\^?gh_"
)
_NEAR = re.compile(r"(?i)^key|(?<!\bx)auth")
"""What is picked out for the sake of secrets, surely and perhaps."""
_SHELLS = re.compile(
    r"['\"`\s,(](?:/(?:usr/)?bin/|system32\\)?(?:(?:ba|z|da|k|a)?sh|cmd\.exe|powershell)(?:\s+-i)?['\"`\s]"
)
_EVALUATES = re.compile(
    r"\b(?:eval|exec|instance_eval|class_eval|Function|runInThisContext|runInNewContext|loadstring"
    r"|load|create_function|assert|system|popen|include|require)\b"
)
_RUNS_INPUT = re.compile(
    r"(?<![\w.])(?:eval|exec|compile|assert|load|instance_eval|class_eval)(?!\w)|\.(?:instance_eval|class_eval|execute)\b|\bqx\b|%x|`"
    r"|\b(?:subprocess|child_process|exec(?:Sync|File|FileSync)|spawn(?:Sync)?|system|popen|passthru"
    r"|shell_exec|proc_open|runIn\w*Context|Function|loadstring|create_function|pickle|marshal|Open3"
    r"|vm|builtins|__import__)\b"
)
"""What turns text into code or commands, in any language."""
_TALKS = re.compile(
    r"https?://|ftp://|\bsocket\b|TCPSocket|TCPServer|fsockopen|IO::Socket|Socket\b|\bnet\b"
)
_RELAYS = re.compile(
    r"(?:popen|exec|system|spawn|run|call|check_output|shell_exec)\w{0,20}\s{0,4}\(?\s{0,4}"
    r"[a-z_$]\w{0,40}\s{0,4}[,)]"
)
_MOST_TEXT = 32 * 1024
"""Characters of a program that are looked at."""
_INTERACTIVE = re.compile(r"-[a-z]*i")
_SHELL_NAMES = frozenset(("sh", "bash", "zsh", "dash", "ksh", "ash", "fish"))


def prints_variable(shell: Shell, call: Call, what: str = "prints") -> None:
    """Record that a call prints, or sends, a secret by the name of its variable."""
    if call.node is None or not any(unknown(argument) for argument in call.args):
        return
    for match in _NAMED.finditer(source(call.node)):
        if SECRET_VARIABLE.search(match[1]) and shell.state.get(match[1]) is None:
            tier = Tier.DANGER if match[1] == "PAT" else Tier.FORBIDDEN
            shell.find(tier, "secrets", f"it {what} the secret `{match[1]}`")


def _dumped(shell: Shell) -> bool:
    return any(one in shell.facts.calls for one in _DUMPS)


def searched(shell: Shell, call: Call, wanted: str) -> None:
    """Record that the environment's secrets are picked out of a listing of it."""
    if call.stdin is None or not _dumped(shell):
        return
    sure, near = _WANTED.search(wanted), _NEAR.search(wanted)
    if sure or near:
        tier = Tier.FORBIDDEN if sure else Tier.DANGER
        shell.find(tier, "secrets", "it picks secrets out of the environment")


def sent(shell: Shell, call: Call) -> None:
    """Record that the environment, or an interactive shell, is handed to another machine."""
    given = [*call.args, *([call.stdin] if call.stdin is not None else [])]
    if any(unknown(one) for one in given) and _dumped(shell):
        shell.find(Tier.FORBIDDEN, "secrets", "it sends the environment to another machine")
    for words in shell.facts.calls:
        if words[0].rsplit("/", 1)[-1] in _SHELL_NAMES and any(
            _INTERACTIVE.fullmatch(word) for word in words[1:]
        ):
            shell.find(Tier.FORBIDDEN, "remote-script", "it connects a shell with another machine")


def program(shell: Shell, text: str) -> None:
    """Record that a literal program connects a shell, or code, with another machine."""
    text = text[:_MOST_TEXT]
    if not _TALKS.search(text):
        return
    if _SHELLS.search(text) or (_RELAYS.search(text) and "ocket" in text):
        shell.find(Tier.FORBIDDEN, "remote-script", "it connects a shell with another machine")
    elif _EVALUATES.search(_requires(text)) and not re.search(r"localhost|127\.0\.0\.1", text):
        shell.find(Tier.FORBIDDEN, "remote-script", "it runs code that comes from another machine")


def fed(shell: Shell, text: str, stdin: str | None) -> None:
    """Record that a literal program runs what its input brings from the network."""
    if arrives(stdin) and _RUNS_INPUT.search(_requires(text[:_MOST_TEXT])):
        shell.find(Tier.FORBIDDEN, "remote-script", "it runs what comes from the network")


def _requires(text: str) -> str:
    """Return a program without the lines that only load its libraries."""
    return re.sub(
        r"\brequire\s*\(?\s*['\"][\w:./-]+['\"]\s*\)?|\buse\s+[\w:]+|\.exec\s*\(\s*['\"`/]|\bexec\s*\(\s*['\"]",
        "",
        text,
    )


def swept(shell: Shell, path: str, name: str) -> None:
    """Record that a program goes through a whole home, where secrets lie."""
    full = shell.resolve(path)
    home = shell.state.home
    if full in (home, "/home", "/root", "/Users") or (
        full.endswith("/*") and full[:-2] in (home, "/home", "/Users")
    ):
        shell.touch(How.READ, full, program=name)
        shell.find(
            Tier.FORBIDDEN, "secrets", f"`{name}` goes through a whole home, where secrets lie"
        )


def foreign(shell: Shell, target: str) -> None:
    """Note a folder whose content came from the network."""
    shell.files.foreign.add(shell.resolve(target or "."))


def arrives(text: str | None) -> bool:
    """Return whether a text came from the network."""
    return text is not None and NET in text
