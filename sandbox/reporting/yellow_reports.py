# SPDX-License-Identifier: Apache-2.0
"""YELLOW reports: what a call tells its user afterwards, and until when that waits.

The shape is `policy.people.reports.YellowReport`. A report is noted when its call has ended; it is
delivered in the call's own answer, by `lockgate reports`, or to the user's channel, whichever comes
first; quiet hours hold all three back (autonomy-levels.md, "Report delivery").
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from policy.autonomy.levels_schema import QuietHours
from policy.model import ActionPlan, Verdict
from policy.people.reports import YellowReport
from sandbox.host.dirs import Dirs
from sandbox.host.sqlite import Database
from sandbox.results import CallResult, Ending
from sandbox.text.redaction import mask

FILE = "reports.sqlite"
_DETAILS = 200
_NAMED = 5
_STEPS = (
    """
    CREATE TABLE reports (
        call TEXT PRIMARY KEY, user TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
        delivered TEXT
    );
    CREATE INDEX reports_waiting ON reports (delivered, at);
    """,
)


@dataclass(frozen=True, slots=True)
class Noted:
    """A report and how it was delivered."""

    call: str
    user: str
    report: YellowReport
    delivered: str | None
    """`inline`, `batch`, `channel`; None while it waits."""


def report_of(
    plan: ActionPlan, result: CallResult, title: str, now: datetime
) -> YellowReport | None:
    """Return what is to be reported of a call that has ended; None for what is not YELLOW.

    `title` is the category as autonomy-levels.md writes it, `now` an instant with a time zone.
    Secrets are masked: it is kept, and may leave this host over a channel.
    """
    if result.verdict is not Verdict.REPORT or result.ending in (Ending.DENIED, Ending.RUNNING):
        return None
    undo = f"lockgate undo {result.id}" if result.landed else None
    return YellowReport(
        action=action_name(plan.tool, mask(plan.params.command or "")),
        category=title,
        details=_details(plan, result),
        timestamp=now.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        reversible=undo is not None or not result.landed,
        undo_command=undo,
    )


def action_name(tool: str, command: str | None) -> str:
    """Return a short name such as `git_push` or `write_file`."""
    words = (command or "").split()
    if not words:
        return tool.lower()
    name = words[0].rsplit("/", 1)[-1]
    verb = words[1] if len(words) > 1 and words[1].isalpha() and name in _WITH_VERB else ""
    return f"{name}_{verb}" if verb else name


_WITH_VERB = frozenset(("git", "npm", "pip", "cargo", "go", "yarn", "pnpm", "uv", "poetry"))


def _details(plan: ActionPlan, result: CallResult) -> str:
    what = plan.params.command or f"{plan.tool} {plan.params.file_path or ''}".strip()
    line = " ".join(mask(what).split())  # before it is cut: half a key looks like none
    line = line if len(line) <= _DETAILS else line[: _DETAILS - 1] + "…"
    said = [f"ran `{line}`" if plan.params.command else line]
    if result.exit_status:
        said.append(f"status {result.exit_status}")
    names = [change.path for change in result.changes[:_NAMED]]
    total = max(len(result.changes), result.changes_total)
    if names:
        rest = f" and {total - len(names)} more" if total > len(names) else ""
        verb = "changed" if result.landed else f"changed nothing yet ({result.judgement})"
        said.append(f"{verb} {', '.join(names)}{rest}")
    if result.landed and result.message:
        said.append(mask(result.message))
    return "; ".join(said)


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
        self._db = Database(dirs.state / FILE, _STEPS, loss="the log still holds what was done")

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
