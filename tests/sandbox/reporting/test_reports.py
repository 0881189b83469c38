# SPDX-License-Identifier: Apache-2.0
"""YELLOW reports: their six fields, quiet hours, and the ways in which they are delivered."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from policy.autonomy.levels import Levels
from policy.autonomy.levels_schema import LevelsFile, QuietHours, UserLevels
from policy.model import ActionPlan, Params, Tier, Verdict
from policy.people.done import say_done
from sandbox.audit.events.calls import AskedRecord
from sandbox.audit.events.protected import TamperedRecord
from sandbox.calls.recorder import Recorder
from sandbox.config.channels import Channel
from sandbox.config.settings import Dirs, Settings
from sandbox.reporting.channels import deliver
from sandbox.reporting.delivery import People
from sandbox.reporting.waiting import count_reports
from sandbox.reporting.yellow_reports import Reports, action_name, is_quiet, report_of
from sandbox.results import CallResult, ChangeView, Ending
from tests.fakes import wait_for

NOON = datetime(2026, 2, 11, 12, 0, tzinfo=UTC)
NIGHT = datetime(2026, 2, 11, 23, 30, tzinfo=UTC)
PLAN = ActionPlan(
    tool="Bash", params=Params(command="git commit -m 'design docs'"), workspace="/w", user="otto"
)


def result(**fields: Any) -> CallResult:
    change = ChangeView(path="a.md", kind="modified", type="file")
    base = {
        "id": "c1",
        "tool": "Bash",
        "verdict": Verdict.REPORT,
        "tier": Tier.CAUTION,
        "rules": (),
        "message": "",
        "ending": Ending.RAN,
        "exit_status": 0,
        "landed": True,
        "changes": (change,),
    }
    return CallResult(**{**base, **fields})


def test_a_report_has_the_six_fields_of_the_document() -> None:
    report = report_of(PLAN, result(), "Git Operations", NOON)
    assert report is not None
    assert report.model_dump() == {
        "action": "git_commit",
        "category": "Git Operations",
        "details": "ran `git commit -m 'design docs'`; changed a.md",
        "timestamp": "2026-02-11T12:00:00Z",
        "reversible": True,
        "undo_command": "lockgate undo c1",
    }


def test_what_is_not_yellow_is_not_reported() -> None:
    for fields in ({"verdict": Verdict.ALLOW}, {"verdict": Verdict.ASK}, {"ending": Ending.DENIED}):
        assert report_of(PLAN, result(**fields), "x", NOON) is None


def test_what_landed_nothing_has_nothing_to_undo() -> None:
    report = report_of(PLAN, result(landed=False, changes=(), exit_status=1), "x", NOON)
    assert report is not None
    assert (report.undo_command, report.reversible) == (None, True)
    assert "status 1" in report.details


@pytest.mark.parametrize(
    ("zone", "quiet"),
    [("UTC", True), ("Europe/Berlin", True), ("America/New_York", False), ("Asia/Tokyo", False)],
)
def test_quiet_hours_are_meant_in_the_users_zone_and_cross_midnight(zone: str, quiet: bool) -> None:
    hours = QuietHours.model_validate("23:00-08:00")
    assert is_quiet(hours, zone, NIGHT) is quiet
    assert not is_quiet(None, zone, NIGHT)
    berlin_summer = datetime(2026, 7, 1, 6, 30, tzinfo=UTC)  # 08:30 there
    assert not is_quiet(hours, "Europe/Berlin", berlin_summer)


class Office:
    """People who are told, with a clock that stands."""

    def __init__(self, root: Path, now: datetime, channel: Channel | None = None) -> None:
        self.dirs = Dirs.under(root).create()
        self.reports = Reports(self.dirs)
        self.now = now
        said = UserLevels(
            quiet_hours=QuietHours.model_validate("23:00-08:00"),
            escalation_channel="phone" if channel else None,
        )
        self.levels = Levels.default().extended(LevelsFile(users={"otto": said}))
        channels = {"phone": channel} if channel else {}
        self.settings = Settings(channels=channels, time_zone="UTC")
        self.record = Recorder(self.dirs)
        self.people = People(self.reports, self.record, self.settings, now=lambda: self.now)

    def told(self, *, shown: bool = True) -> CallResult:
        async def tell() -> CallResult:
            told = await self.people.told(
                PLAN, result(), "Git Operations", self.levels, shown=shown
            )
            await self.people.close()
            return told

        return asyncio.run(tell())

    def batch(self) -> None:
        async def send() -> None:
            await self.people.batch()
            await self.record.flush()

        asyncio.run(send())


def test_by_day_the_answer_holds_the_report(tmp_path: Path) -> None:
    office = Office(tmp_path, NOON)
    assert office.told().report is not None
    assert office.reports.waiting() == []
    assert [one.delivered for one in office.reports.all()] == ["inline"]


def test_what_no_door_shows_waits(tmp_path: Path) -> None:
    office = Office(tmp_path, NOON)
    assert office.told(shown=False).report is not None
    assert [one.delivered for one in office.reports.waiting()] == [None]
    assert (count_reports(office.dirs), office.reports.per_day()) == (1, {"2026-02-11": 1})


SAID = {
    "a push": ("git push origin main", "", "To x\n   abcdef1..abcdef2  main -> main\n", 3,
               "Pushed 3 commits to main"),
    "a new branch": ("git push", "", " * [new branch]      x -> x\n", None, "Pushed the new x"),
    "a commit": ("git add -A && git commit -qm x", "[main abcdef1] design docs\n 1 file", "", None,
                 "Committed abcdef1 on main: design docs"),
    "pip": ("pip install requests", "Successfully installed typing-extensions-4.1 requests-2.31.0",
            "", None, "Installed typing-extensions@4.1, requests@2.31.0"),
    "npm": ("npm install left-pad@1.3.0", "added 1 package in 1s", "", None,
            "Installed left-pad@1.3.0"),
    "nothing that is known": ("make", "pushed", "", None, ""),
}  # fmt: skip


@pytest.mark.parametrize("command, out, err, commits, said", SAID.values(), ids=SAID)
def test_a_report_says_what_was_done(
    command: str, out: str, err: str, commits: int | None, said: str
) -> None:
    assert say_done("x", "Bash", {}, command, f"{out}\n{err}", commits=commits) == said
    plan = PLAN.model_copy(update={"params": Params(command=command)})
    report = report_of(plan, result(stdout=out, stderr=err, changes=()), "x", NOON, commits)
    assert report is not None
    assert report.details == (said or f"ran `{command}`")


def test_a_report_of_a_tool_says_what_it_did() -> None:
    for category, params, said in (
        ("Cron Scheduling", {"name": "backup", "cron": "0 3 * * *"}, "Scheduled: backup at 0 3"),
        ("Sending Messages", {"to": "ann", "channel": "#dev"}, "Replied to ann in #dev"),
        ("External API Calls", {"url": "https://x", "id": 1}, "Called https://x with id, url"),
        ("Notifications", {"topic": "rain"}, "Notified you about rain"),
        ("Notifications", {"x": "y"}, ""),
    ):
        found = say_done(category, "t", params, None, "")
        assert found.startswith(said) and bool(found) == bool(said)


ACTIONS = {
    "python3 -m pytest -q": "pytest",
    "cd x && A=1 .venv/bin/pytest": "pytest",
    "git commit -m x": "git_commit",
    "cd x": "cd",
    "python3 x.py": "python3",
}


@pytest.mark.parametrize("command", ACTIONS)
def test_an_action_is_named_for_what_runs(command: str) -> None:
    assert action_name("Bash", command) == ACTIONS[command]


def test_quiet_hours_hold_it_back_until_somebody_asks(tmp_path: Path) -> None:
    office = Office(tmp_path, NIGHT)
    assert office.told().report is None
    [one] = office.reports.waiting()
    assert one.user == "otto"
    office.reports.delivered([one.call], "batch")
    assert office.reports.waiting() == []


def test_a_channel_gets_batches_but_not_at_night(tmp_path: Path) -> None:
    out = tmp_path / "sent"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    office = Office(tmp_path / "o", NIGHT, Channel(command=(sys.executable, "-c", program)))
    office.told()
    office.batch()
    assert not out.exists()
    office.now = NOON
    office.batch()
    sent = json.loads(out.read_text())
    assert sent["event"] == "reports"
    assert sent["reports"][0]["undo_command"] == "lockgate undo c1"
    assert office.reports.waiting() == []


def test_what_cannot_be_delivered_waits_and_is_said(tmp_path: Path) -> None:
    office = Office(tmp_path, NOON, Channel(command=("/nonexistent/program",)))
    office.told()
    office.batch()
    assert len(office.reports.waiting()) == 1
    assert "undelivered" in (office.dirs.state / "audit.jsonl").read_text()


def test_a_question_goes_out_at_night_too(tmp_path: Path) -> None:
    out = tmp_path / "sent"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    office = Office(tmp_path / "o", NIGHT, Channel(command=(sys.executable, "-c", program)))

    async def ask() -> None:
        await office.people.asked(AskedRecord(call="c1"), "otto", office.levels)
        await office.people.close()

    asyncio.run(ask())
    assert json.loads(out.read_text()) == {"event": "asked", "call": "c1"}


def test_many_questions_in_a_row_are_one_message_with_a_count(tmp_path: Path) -> None:
    out = tmp_path / "sent"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + chr(10))"
    office = Office(tmp_path / "o", NOON, Channel(command=(sys.executable, "-c", program)))

    async def ask() -> None:
        await office.people.asked(AskedRecord(call="c0"), "otto", office.levels)
        await asyncio.to_thread(wait_for, out.exists, "the first is sent at once")
        for number in range(1, 6):
            await office.people.asked(AskedRecord(call=f"c{number}"), "otto", office.levels)
        await office.people.close()

    asyncio.run(ask())
    first, rest = map(json.loads, filter(None, out.read_text().splitlines()))
    assert first == {"event": "asked", "call": "c0"}
    assert (rest["event"], rest["count"]) == ("several-asked", 5)
    assert [one["call"] for one in rest["questions"]] == ["c1", "c2", "c3", "c4", "c5"]


def test_what_was_changed_around_lockgate_goes_to_the_channel_at_once(tmp_path: Path) -> None:
    out = tmp_path / "sent"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    office = Office(tmp_path / "o", NIGHT, Channel(command=(sys.executable, "-c", program)))
    found = TamperedRecord(workspace="/w", path=".envrc", kind="modified")

    async def tell() -> None:
        office.people.tell(found, "nobody", office.levels)  # who has no channel
        await office.people.close()
        assert not out.exists()
        office.people.tell(found, "otto", office.levels)
        await office.people.close()

    asyncio.run(tell())
    assert json.loads(out.read_text()) == found.as_json()


SECRET = "Zx8Kq2Lm9Pw4Rt7Vb3Nc"


def test_no_secret_of_a_question_goes_over_a_channel(tmp_path: Path) -> None:
    out = tmp_path / "sent"
    program = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    office = Office(tmp_path / "o", NOON, Channel(command=(sys.executable, "-c", program)))

    async def ask() -> None:
        what = AskedRecord(call="c1", action=f"rm a; PGPASSWORD={SECRET} psql")
        await office.people.asked(what, "otto", office.levels)
        await office.people.close()

    asyncio.run(ask())
    assert json.loads(out.read_text())["action"] == "rm a; PGPASSWORD=[masked] psql"


@pytest.mark.parametrize("before", [0, 90, 110, 118, 119, 150, 190])
def test_no_secret_stands_in_a_report(before: int) -> None:
    """Wherever the command is cut."""
    for secret in (f"API_TOKEN={SECRET}", f"ghp_{SECRET}{SECRET}"):
        command = f"{secret}; echo {'x' * before} {secret} > a.md"
        plan = PLAN.model_copy(update={"params": Params(command=command)})
        report = report_of(plan, result(), "File Operations", NOON)
        assert report is not None
        assert SECRET[:8] not in report.model_dump_json()
        assert "[masked]" in report.details


@pytest.fixture
def webhook() -> Iterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(500 if self.path == "/bad" else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_webhook_gets_the_object(webhook: tuple[str, list[bytes]]) -> None:
    url, got = webhook
    assert asyncio.run(deliver(Channel(url=url), {"event": "x"})) is None
    assert json.loads(got[0]) == {"event": "x"}
    assert asyncio.run(deliver(Channel(url=f"{url}/bad"), {})) == "the webhook answered 500"


def test_a_command_that_fails_or_hangs_is_said() -> None:
    bad = Channel(command=(sys.executable, "-c", "import sys; sys.exit('no line')"))
    assert "ended with 1: no line" in str(asyncio.run(deliver(bad, {})))
    slow = Channel(command=(sys.executable, "-c", "import time; time.sleep(60)"), seconds=0.5)
    assert "took longer" in str(asyncio.run(deliver(slow, {})))


@pytest.mark.parametrize(
    "fields", [{}, {"command": ["x"], "url": "http://x"}, {"url": "file:///x"}]
)
def test_a_channel_is_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Channel.model_validate(fields)


def test_a_time_zone_must_be_known() -> None:
    with pytest.raises(ValidationError, match="no time zone"):
        Settings(time_zone="Europe/Atlantis")
