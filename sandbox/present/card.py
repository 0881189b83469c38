# SPDX-License-Identifier: Apache-2.0
"""The approval card, and the layout of named fields that it shares with other views.

Whatever an agent may have written is made safe here, and cannot pass for a field of ours.
"""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from policy.model import NO_NETWORK, Network
from sandbox.text.terminal import safe_block

FIELD = 13
"""Width of a field's name."""
MIN_CHARS = 20
CARD_LINES = 40
"""Lines of an intent or an output that a card shows before it says how many more there are."""
CONTENT_LINES = 400
"""The same for contents and diffs. A command is shown whole: what is done at its end counts as much
as what is done at its beginning."""
_TEXTS = ("command", "file_path", "path", "old_string", "new_string", "content", "pattern")
"""Parameters that have a field of their own."""
REGISTERS = "workspace_add"
"""The tool that asks a person to register a folder: it runs nothing."""
NOT_REHEARSED = "not rehearsed: `preview: rehearse` in the settings shows what it would change"
_MODE = "mode"
_SENDS = frozenset(("git-push", "network"))
"""Rules about what leaves the machine."""
ACCESS = {"none": "nothing", "read": "nothing (reads only)", "write": "files of"}


CardRows = list[tuple[str, str]]


def card(
    plan: Mapping[str, Any],
    decision: Mapping[str, Any],
    *,
    paths: Sequence[str] | None = None,
    preview: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    scripts: Mapping[str, str] | None = None,
    unbound: Sequence[str] = (),
) -> str:
    """Return the approval card of a plan as text; the arguments are those of `card_rows`."""
    title, rows = card_rows(
        plan,
        decision,
        paths=paths,
        preview=preview,
        env=env,
        stdin=stdin,
        scripts=scripts,
        unbound=unbound,
    )
    return card_text(title, rows)


def card_text(title: str, rows: CardRows) -> str:
    """Return a card as text that is safe to show."""
    return f"{title}\n{fields(rows, fold=True)}"


def card_rows(
    plan: Mapping[str, Any],
    decision: Mapping[str, Any],
    *,
    paths: Sequence[str] | None = None,
    preview: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    scripts: Mapping[str, str] | None = None,
    unbound: Sequence[str] = (),
) -> tuple[str, CardRows]:
    """Return the title of a plan's approval card and its named fields, as an agent wrote them
    (safety-guardrails.md, Approval Checkpoints).

    Its five parts: the exact command or content, what it may change, the outcome that is expected,
    the risk, how to roll back. `paths` are what gate 1 read in it, `preview` what a rehearsal did,
    `env` the variables that are set for it, `stdin` what it is given to read, `scripts` the files
    that it runs, `unbound` what else it runs, which a yes cannot be bound to. No parameter is left
    out: all of them are approved.
    """
    params = plan.get("params", {})
    if plan.get("tool") == REGISTERS:
        return _registering(plan, params)
    rows = [("agent", f"{plan.get('agent', '')} calls {plan.get('tool', '')}")]
    for key in _TEXTS:
        if params.get(key) is not None:
            value = str(params[key])
            shown = value if key == "command" else _excerpt(value, CONTENT_LINES)
            rows.append((key.replace("_", " "), shown))
    for number, step in enumerate(params.get("edits") or (), start=1):
        arrow = "-> everywhere" if step.get("replace_all") else "->"
        text = f"{step['old_string']}\n{arrow}\n{step['new_string']}"
        rows.append((f"edit {number}", _excerpt(text, CONTENT_LINES)))
    rows += [
        ("with", _excerpt(f"{key}: {_plain(value)}", CONTENT_LINES))
        for key, value in params.items()
        if key not in (*_TEXTS, "edits") and value not in (None, False, [], {}, "")
    ]
    rows += [("variable", _excerpt(f"{name}={value}")) for name, value in (env or {}).items()]
    rows += [("input", stdin)] if stdin else []
    rows += [
        ("runs", _excerpt(f"{path}, {text}", CONTENT_LINES))
        for path, text in (scripts or {}).items()
    ]
    rows += [("not bound", f"{one}: its text is not part of what you approve") for one in unbound]
    if plan.get("intent"):
        rows.append(("intent", _excerpt(str(plan["intent"]))))
    rows.append(("starts in", str(plan.get("cwd") or plan.get("workspace"))))
    rows.append(("risk", str(decision.get("tier", ""))))
    asking = [one for one in decision.get("layers", ()) if one.get("verdict") == "ask"]
    told = [one for one in asking if one.get("layer") != _MODE] or asking  # the others say why
    for one in told:
        rule = f"{one['layer']}/{one['rule']}" if one.get("rule") else str(one["layer"])
        rows.append(("rule", rule))
        rows.append(("reason", str(one.get("reason", ""))))
    if not asking:
        rows.append(("reason", str(decision.get("message", ""))))
    rows.append(("may change", _may_change(plan, decision)))
    if reach := _may_reach(decision):
        rows.append(("may reach", reach))
    if paths:
        rows.append(("names", _excerpt("\n".join(paths))))
    rows += _expected(plan, preview or {})
    rows.append(("roll back", _roll_back(decision)))
    return "Lockgate asks: may this call run?", rows


def host_rows(
    plan: Mapping[str, Any], decision: Mapping[str, Any], *, call: str, env: Mapping[str, str]
) -> tuple[str, CardRows]:
    """Return the title and the fields of a card about a host that a running call wants."""
    params = plan.get("params", {})
    rows = [
        ("agent", f"{plan.get('agent', '')} calls {plan.get('tool', '')}"),
        ("host", _may_reach(decision)),
        ("call", f"{call}, which runs and waits"),
        ("command", str(params.get("command") or "")),
        *(("variable", _excerpt(f"{name}={value}")) for name, value in env.items()),
        *([("intent", _excerpt(str(plan["intent"])))] if plan.get("intent") else []),
        ("starts in", str(plan.get("cwd") or plan.get("workspace"))),
        ("risk", f"{decision.get('tier', '')}: what the call sends there is its own affair"),
        ("reason", str(decision.get("message", ""))),
        ("expected", "the connection goes on, to an address outside of this host's networks"),
        ("roll back", "nothing takes back what it sends"),
    ]
    return "Lockgate asks: may this running call reach a host?", rows


def _registering(plan: Mapping[str, Any], params: Mapping[str, Any]) -> tuple[str, CardRows]:
    """Return the card of a folder that is to become a workspace."""
    path = str(params.get("path") or "")
    rows = [
        ("agent", str(plan.get("agent", ""))),
        ("folder", path),
        *([("intent", _excerpt(str(plan["intent"])))] if plan.get("intent") else []),
        ("may change", "nothing now; from then on, agents' calls may, through both gates"),
        ("expected", "it stands on the list of workspaces, and cells of agents can see its files"),
        ("risk", "caution: what is in it can be read by agents"),
        ("roll back", f"lockgate workspace remove {path}"),
    ]
    return "Lockgate asks: may this folder be a workspace?", rows


def _roll_back(decision: Mapping[str, Any]) -> str:
    """Say what takes a call back, and what does not."""
    writes = decision.get("rights", {}).get("workspace") == "write"
    undo = "lockgate undo, while the before-image is kept" if writes else ""
    sends = any(one.get("rule") in _SENDS for one in decision.get("layers", ()))
    if sends or _may_reach(decision):
        gone = "nothing takes back what it sends"
        return f"{gone}; files of the workspace: {undo}" if undo else gone
    return undo or "it changes no file, so there is nothing to take back"


def _expected(plan: Mapping[str, Any], preview: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the rows about the outcome: what a rehearsal showed, or what the agent says."""
    if not preview:
        said = str(plan.get("intent") or "")
        return [("expected", f"as the agent says: {_excerpt(said)}" if said else NOT_REHEARSED)]
    if preview.get("skipped"):
        return [("expected", f"not rehearsed: {preview['skipped']}")]
    status = preview.get("exit_status")
    ended = f"without network: {preview.get('ending', 'ran')}, status {status}"
    rows = [("rehearsed", ended)]
    for key, name in (("judgement", "gate 2"), ("output", "it printed"), ("diff", "it changed")):
        if preview.get(key):
            most = CONTENT_LINES if key == "diff" else CARD_LINES
            rows.append((name, _excerpt(str(preview[key]), most)))
    return rows


def fields(rows: Sequence[tuple[str, str]], *, fold: bool) -> str:
    """Return fields with a bar before each of their lines: what follows it is all their text.

    With `fold` long lines are folded here, since a terminal's own folding would let text stand
    where a field's name stands.
    """
    width = max(shutil.get_terminal_size().columns - FIELD - 4, MIN_CHARS) if fold else 0
    out = []
    for name, value in rows:
        lines = [piece for line in safe_block(value).split("\n") for piece in _folded(line, width)]
        names = [name, *[""] * (len(lines) - 1)]
        out += [f"  {one:<{FIELD}}| {line}" for one, line in zip(names, lines, strict=True)]
    return "\n".join(out)


def _folded(line: str, width: int) -> list[str]:
    """Fold a line at a width in columns (0: not at all), at a space if one is near."""
    pieces = []
    while width and (cut := _columns(line, width)) < len(line):
        space = line.rfind(" ", cut - cut // 3, cut)
        at = space + 1 if space > 0 else cut
        pieces.append(line[:at])
        line = line[at:]
    return [*pieces, line]


def _columns(line: str, width: int) -> int:
    """Return how many characters of a line fit into so many columns."""
    used = 0
    for at, character in enumerate(line):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > width:
            return at
    return len(line)


def _excerpt(text: str, most: int = CARD_LINES) -> str:
    lines = text.split("\n")
    if len(lines) <= most:
        return text
    return "\n".join([*lines[:most], f"... and {len(lines) - most} more lines"])


def _plain(value: object) -> str:
    """Return a parameter as text; what is no text as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _may_reach(decision: Mapping[str, Any]) -> str:
    """Say which hosts a yes opens; nothing where it opens none."""
    try:
        network = Network.model_validate(decision.get("rights", {}).get("network", NO_NETWORK))
    except ValidationError:
        return ""
    lines = [f"the package index that this host uses for {package}" for package in network.packages]
    for host in network.hosts:
        place = f", at {host.address}" if host.address else ""
        place += ", also in a private network" if host.private and not host.address else ""
        lines.append(f"{host.name}, port {host.port}{place}")
    for credential in network.credentials:
        hosts, source = ", ".join(credential.hosts), credential.secret.words()
        lines.append(f"with {credential.words()} for {hosts}, from {source}")
    return "\n".join(lines)


def _may_change(plan: Mapping[str, Any], decision: Mapping[str, Any]) -> str:
    access = str(decision.get("rights", {}).get("workspace", "none"))
    what = ACCESS.get(access, access)
    if access != "write":
        return what
    deletes = decision.get("named_deletions") or ()
    named = f", and delete {', '.join(deletes)}" if deletes else ""
    return f"{what} {plan.get('workspace')}{named}"
