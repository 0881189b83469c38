# SPDX-License-Identifier: Apache-2.0
"""YELLOW reports: what a call tells its user afterwards, and until when that waits.

The shape is `policy.people.reports.YellowReport`. A report is noted when its call has ended; it is
delivered in the call's own answer, by `lockgate reports`, or to the user's channel, whichever comes
first; quiet hours hold all three back (autonomy-levels.md, "Report delivery").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from policy.autonomy.levels_schema import QuietHours
from policy.model import ActionPlan, Verdict
from policy.people.done import say_done
from policy.people.reports import YellowReport
from sandbox.host.dirs import Dirs
from sandbox.reporting.waiting import database
from sandbox.results import CallResult, Ending
from sandbox.text.redaction import mask

_DETAILS = 200
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Noted:
    """A report and how it was delivered."""

    call: str
    user: str
    report: YellowReport
    delivered: str | None
    """`inline`, `batch`, `channel`; None while it waits."""


def report_of(
    plan: ActionPlan, result: CallResult, title: str, now: datetime, commits: int | None = None
) -> YellowReport | None:
    """Return what is to be reported of a call that has ended; None for what is not YELLOW.

    `title` is the category as autonomy-levels.md writes it, `now` an instant with a time zone,
    `commits` how many a push took along, where that is known.
    Secrets are masked: it is kept, and may leave this host over a channel.
    """
    if result.verdict is not Verdict.REPORT or result.ending in (Ending.DENIED, Ending.RUNNING):
        return None
    undo = f"lockgate undo {result.id}" if result.landed else None
    return YellowReport(
        action=action_name(plan.tool, mask(plan.params.command or "")),
        category=title,
        details=_details(title, plan, result, commits),
        timestamp=now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        reversible=undo is not None or not result.landed,
        undo_command=undo,
    )


def action_name(tool: str, command: str | None) -> str:
    """Return a short name such as `git_push`, `pytest` or `write_file`."""
    words = _words(command or "")
    if not words:
        return tool.lower()
    name = words[0].rsplit("/", 1)[-1]
    if _PYTHON.fullmatch(name) and len(words) > 2 and words[1] == "-m":
        return action_name(tool, " ".join(words[2:]))
    verb = words[1] if len(words) > 1 and words[1].isalpha() and name in _WITH_VERB else ""
    return f"{name}_{verb}" if verb else name


def _words(command: str) -> list[str]:
    """Return the words of the first command that does something, as far as can be told at once."""
    text = command[:_MOST_TEXT]
    for part in _PARTS.split(text):
        words = part.split()
        while words and _SETS.match(words[0]):
            del words[0]
        if words and words[0] not in _PREPARES:
            return words
    return text.split()


_WITH_VERB = frozenset(("git", "npm", "pip", "cargo", "go", "yarn", "pnpm", "uv", "poetry"))
_PREPARES = frozenset(("cd", "export", "set", "source", ".", "unset", "pushd", "ulimit"))
_PYTHON = re.compile(r"python[\d.]*")
_PARTS = re.compile(r"&&|\|\||[;\n]")
_SETS = re.compile(r"[A-Za-z_]\w*=")
_MOST_TEXT = 2_000


def _details(title: str, plan: ActionPlan, result: CallResult, commits: int | None) -> str:
    what = plan.params.command or f"{plan.tool} {plan.params.file_path or ''}".strip()
    line = _fit(mask(what))  # before it is cut: half a key looks like none
    said = [f"ran `{line}`" if plan.params.command else line]
    if not result.exit_status and (done := _done(title, plan, result, commits)):
        said = [_fit(mask(done))]
    if result.exit_status:
        said.append(f"status {result.exit_status}")
    names = [change.path for change in result.changes if not change.path.startswith(".git/")]
    total = max(len(result.changes), result.changes_total) - len(result.changes) + len(names)
    if names:
        rest = f" and {total - _NAMED} more" if total > _NAMED else ""
        verb = "changed" if result.landed else f"changed nothing yet ({result.judgement})"
        said.append(f"{verb} {', '.join(names[:_NAMED])}{rest}")
    if result.landed and result.message:
        said.append(mask(result.message))
    return "; ".join(said)


def _done(title: str, plan: ActionPlan, result: CallResult, commits: int | None) -> str:
    given = plan.params.model_dump(by_alias=True, exclude_unset=True)
    output = f"{result.stdout}\n{result.stderr}"
    return say_done(title, plan.tool, given, plan.params.command, output, commits=commits)


def _fit(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _DETAILS else line[: _DETAILS - 1] + "…"


def is_quiet(hours: QuietHours | None, zone: str | None, now: datetime) -> bool:
    """Whether an instant lies in a user's quiet hours; `zone` None is this host's own time."""
    if hours is None:
        return False
    here = now.astimezone(ZoneInfo(zone)) if zone else now.astimezone()
    return hours.covers(here.time().replace(tzinfo=None))


class Reports:
    """The reports of one state folder."""

    def __init__(self, dirs: Dirs) -> None:
        """Reach for nothing yet."""
        self._db = database(dirs)

    def note(self, notes: Iterable[tuple[str, str, YellowReport, str | None]]) -> None:
        """Note reports: call, user, the report, and how it was delivered if it was."""
        rows = [
            (call, user, _instant(report), report.model_dump_json(), how)
            for call, user, report, how in notes
        ]
        with self._db.writing() as db:
            db.executemany("INSERT OR REPLACE INTO reports VALUES (?, ?, ?, ?, ?)", rows)

    def waiting(self) -> list[Noted]:
        """Return what nobody has been told yet, the oldest first."""
        return self._found(f"{_REPORT} WHERE delivered IS NULL ORDER BY at")

    def all(self) -> list[Noted]:
        """Return every report, the oldest first."""
        return self._found(f"{_REPORT} ORDER BY at")

    def per_day(self) -> dict[str, int]:
        """Return how many calls were YELLOW on each day (UTC)."""
        if not self._db.exists:
            return {}
        with self._db.reading() as db:
            asked = "SELECT date(at, 'unixepoch'), count(*) FROM reports GROUP BY 1"
            return dict(db.execute(asked).fetchall())

    def delivered(self, calls: Iterable[str], how: str) -> None:
        """Note that these reports were delivered."""
        with self._db.writing() as db:
            db.executemany(
                "UPDATE reports SET delivered = ? WHERE call = ? AND delivered IS NULL",
                [(how, call) for call in calls],
            )

    def _found(self, query: str) -> list[Noted]:
        if not self._db.exists:
            return []
        with self._db.reading() as db:
            rows = db.execute(query).fetchall()
        return [
            Noted(call, user, YellowReport.model_validate_json(body), how)
            for call, user, body, how in rows
        ]


def _instant(report: YellowReport) -> float:
    return datetime.fromisoformat(report.timestamp).timestamp()


_REPORT = "SELECT call, user, body, delivered FROM reports"
