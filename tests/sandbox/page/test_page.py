# SPDX-License-Identifier: Apache-2.0
"""The page: who is let in, what its forms need, what stands in it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandbox.agents.registering import register
from sandbox.agents.registry import Registry as Agents
from sandbox.approvals.store.grants import Grants
from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.cli.said import NOT_PERMITTED
from sandbox.host.dirs import Dirs
from sandbox.host.latch import Latch
from sandbox.page import pages
from sandbox.page.held import chosen_paths, ticked_at_first
from sandbox.page.links import new_link, use_link
from sandbox.page.logins import IDLE_SECONDS, MOST_LOGINS, Logins
from sandbox.page.showing import environment
from sandbox.results import ChangeView
from sandbox.web.problems import HttpRefusal
from sandbox.web.serving import is_served, served_port
from sandbox.workspaces.registry import Registry
from tests.fakes import FakeSupervisor, served
from tests.http_served import HttpServed, http_served
from tests.page_served import let_in, link_of, question, stranger
from tests.sandbox.shells import ROOT, Shell

NAMED = {"call": "c1", "grant": "g1", "session": "s1"}


@pytest.fixture(scope="module")
def fake() -> FakeSupervisor:
    return FakeSupervisor()


@pytest.fixture(scope="module")
def http(fake: FakeSupervisor) -> Iterator[HttpServed]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        dirs = Dirs.under(Path(folder) / "own").create()
        (Path(folder) / "project").mkdir()
        Registry(dirs).add(Path(folder) / "project", approved=True)
        with served(dirs, fake), http_served(dirs) as one:
            yield one


def filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: NAMED[found[1]], path)


def test_a_link_lets_one_browser_in_once(http: HttpServed) -> None:
    link = link_of(http)
    with stranger(http) as first, stranger(http) as second:
        assert "set-cookie" not in second.head(link).headers  # it does not use the link up
        answer = first.get(link)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert first.get("/").status_code == 200
        assert second.get(link).status_code == 401
        assert second.get("/").status_code == 401
        assert first.get(link).headers["location"] == "/"  # it is in already


def test_of_a_link_a_digest_alone_is_kept(http: HttpServed) -> None:
    token = link_of(http).partition("=")[2]
    (kept,) = (http.dirs.state / "page-links").iterdir()
    assert token not in kept.name + kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert use_link(http.dirs, token)
    assert not use_link(http.dirs, token)


@pytest.mark.parametrize("until", [-1, 10**6], ids=["over", "too far away"])
def test_a_link_counts_for_minutes(tmp_path: Path, until: float) -> None:
    dirs = Dirs.under(tmp_path).create()
    token = new_link(dirs, 1).partition("=")[2]
    (kept,) = (dirs.state / "page-links").iterdir()
    kept.write_text(str(time.time() + until))
    assert not use_link(dirs, token)


def test_whoever_was_not_let_in_is_shown_how(http: HttpServed) -> None:
    with stranger(http) as client:
        for path in map(filled, pages.LOOKS):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert "lockgate ui" in answer.text
        for path in map(filled, pages.DEEDS):
            assert client.post(path, headers={"origin": http.url}).status_code == 401, path
        assert client.get("/events").status_code == 401
        token = {"authorization": f"Bearer {http.token}"}
        assert client.get("/", headers=token).status_code == 401  # it opens the API alone


@pytest.mark.parametrize("path", list(map(filled, pages.DEEDS)))
def test_a_form_needs_the_word_of_its_browser(http: HttpServed, path: str) -> None:
    own, other = let_in(http), let_in(http)
    assert own.post(path, word="").status_code == 403
    assert own.post(path, word=other.word).status_code == 403
    bare = own.client.post(path, data={"word": own.word})
    assert bare.status_code == 403  # it does not say from which page it comes
    elsewhere = own.client.post(path, data={"word": own.word}, headers={"origin": "http://a.b"})
    assert elsewhere.status_code == 403
    null = {"origin": "null", "sec-fetch-site": "cross-site"}
    assert own.client.post(path, data={"word": own.word}, headers=null).status_code == 403
    assert Latch(http.dirs).read() is None


def test_a_form_of_a_page_without_referrers_counts(http: HttpServed) -> None:
    own = let_in(http)
    said = {"origin": "null", "sec-fetch-site": "same-origin"}
    answer = own.client.post("/logout", data={"word": own.word}, headers=said)
    assert answer.status_code == 303
    assert own.client.get("/").status_code == 401


ADDRESSES = ("/", "/approvals", "/static/page.css", "/static/htmx.min.js", "/nothing", "/login")


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_answer_forbids_what_is_of_elsewhere(http: HttpServed, path: str) -> None:
    headers = let_in(http).client.get(path).headers
    policy = headers["content-security-policy"].split("; ")
    assert policy[:3] == ["default-src 'none'", "script-src 'self'", "style-src 'self'"]
    assert "frame-ancestors 'none'" in policy
    assert not [one for one in policy if "unsafe" in one or "http" in one or "*" in one]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_pages_and_names_of_elsewhere_are_refused(http: HttpServed) -> None:
    client = let_in(http).client
    for headers, status in (
        ({"host": "lockgate.example"}, 421),
        ({"origin": "http://127.0.0.1:1"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
    ):
        assert client.get("/", headers=headers).status_code == status, headers


def test_the_page_names_no_other_host_and_holds_no_script(http: HttpServed) -> None:
    text = let_in(http).client.get("/approvals").text
    assert not re.findall(r'(?:src|href|action)="(?!/|#)', text)
    assert "<script>" not in text
    assert not re.findall(r"\son\w+=|style=", text)


ODD = "rm '<img src=x onerror=alert(1)>' \u202egnp.exe\u2066 '\x1b[31mred' '</pre><b>' \u200b"


def test_what_an_agent_wrote_is_text_and_visible(http: HttpServed) -> None:
    asked = question(http, ODD)
    text = let_in(http).client.get(f"/approvals/{asked.call}").text
    assert "<img" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "\\u202egnp.exe\\u2066" in text
    assert "\\x1b[31mred" in text
    assert "\\u200b" in text
    assert not re.findall("[\u202a-\u202e\u2066-\u2069\u200b\x1b]", text)
    Grants(http.dirs).close(asked.call, "denied", by="a test")


def test_every_value_of_a_template_is_made_visible() -> None:
    made = environment().from_string('<a title="{{ a }}">{{ a }}</a>{{ a|line }}')
    assert made.render(a='\u202e"<') == (
        '<a title="\\u202e&#34;&lt;">\\u202e&#34;&lt;</a>\\u202e&#34;&lt;'
    )


def test_a_question_is_approved_as_it_was_shown(http: HttpServed) -> None:
    own, asked = let_in(http), question(http, "rm shown")
    text = own.client.get(f"/approvals/{asked.call}").text
    (digest,) = re.findall(r'name="digest" value="(\w+)"', text)
    assert digest == asked.wanted.digest
    path = f"/approvals/{asked.call}/approve"
    assert own.post(path, digest="0" * 64, offer="once").status_code == 409
    assert own.post(path, offer="once").status_code == 400
    assert Grants(http.dirs).asked(asked.call).state == "open"
    assert own.post(path, digest=digest, offer="always", reason="fine").status_code == 303
    assert Grants(http.dirs).asked(asked.call).state == "approved"
    (grant,) = [one for one in Grants(http.dirs).all() if one.reason == "fine"]
    assert (grant.scope.value, grant.uses > 1) == ("program", True)
    told = own.client.get("/approvals").text
    assert "approved: only: rm shown" in told
    assert "approved:" not in own.client.get("/approvals").text
    assert own.post(f"/grants/{grant.id}/revoke").status_code == 303
    assert not Grants(http.dirs).all()[-1].open(time.time())
    assert own.post(path, digest=digest).status_code == 409


def test_a_question_is_denied(http: HttpServed) -> None:
    own, asked = let_in(http), question(http, "rm denied")
    assert own.post(f"/approvals/{asked.call}/deny", reason="not now").status_code == 303
    found = Grants(http.dirs).asked(asked.call)
    assert (found.state, found.reason) == ("denied", "not now")


def test_a_stop_is_set_shown_on_every_page_and_ended(http: HttpServed) -> None:
    own = let_in(http)
    assert "Everything is stopped" in own.post("/stop").text
    assert Latch(http.dirs).read() is not None
    assert "Let it run again" in own.client.get("/alert").text
    assert own.post("/resume").status_code == 303
    assert Latch(http.dirs).read() is None
    assert "Let it run again" not in own.client.get("/alert").text


def note(http: HttpServed, call: str, **fields: object) -> None:
    """Put a call on record."""
    record = {"event": "decided", "call": call, "agent": "main", "tool": "Bash", "verdict": "allow"}
    Store(http.dirs).append(record_of({**record, **fields}), durable=False)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/history",
        "/calls/c1",
        "/sessions",
        "/session?id=s1",
        "/held",
        "/policy",
        "/record?check=1",
    ],
)
def test_every_page_is_shown_to_whoever_was_let_in(http: HttpServed, path: str) -> None:
    note(http, "c1", params={"command": "echo <i>"}, session="s1")
    answer = let_in(http).client.get(path)
    assert answer.status_code == 200
    assert "<i>" not in answer.text


def test_the_history_is_searched_and_paged(http: HttpServed) -> None:
    for number in range(45):
        note(http, f"searched{number}", params={"command": f"make Target{number % 2}"})
    client = let_in(http).client
    page = client.get("/history?text=TARGET1").text
    shown = re.findall(r'href="/calls/searched(\d+)"', page)
    assert shown == [str(number) for number in range(43, 0, -2)]
    page = client.get("/history?text=target").text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', page)
    rest = re.findall(r"/calls/searched(\d+)", client.get(older.replace("&amp;", "&")).text)
    assert rest == ["4", "3", "2", "1", "0"]
    assert "No call fits" in client.get("/history?text=nothing+of+that").text


TICKED = {
    "a file": (["a"], ["a", "b"], ["a"]),
    "a name that looks like a pattern": (["a*"], ["a*", "ab"], ["a[*]"]),
    "a folder with all in it": (["d", "d/x"], ["d", "d/x", "e"], ["d", "d/x"]),
    "a folder with some in it": (["d", "d/x"], ["d", "d/x", "d/y"], ["d/x"]),
    "nothing": ([], ["a"], None),
    "what was not shown": (["z"], ["a"], None),
    "a folder without what is in it": (["d"], ["d", "d/x"], None),
}


@pytest.mark.parametrize("ticked, every, names", TICKED.values(), ids=TICKED)
def test_what_is_ticked_is_what_lands(
    ticked: list[str], every: list[str], names: list[str] | None
) -> None:
    if names is None:
        with pytest.raises(HttpRefusal):
            chosen_paths(ticked, every)
    else:
        assert chosen_paths(ticked, every) == names


def test_what_is_held_lands_only_as_it_was_shown(http: HttpServed) -> None:
    own = let_in(http)
    note(http, "c1", params={"command": "x"})
    assert own.post("/held/c1/land", digest="0" * 64, path="a").headers["location"] == "/held/c1"
    assert "nothing was done" in own.client.get("/").text


CHANGES = {
    "nothing that gate 2 objects to": (["a", "b"], [], ["a", "b"]),
    "what it objects to": (["a", "b"], ["b"], ["a"]),
    "a folder of which something is left": (["d", "d/a", "d/b"], ["d/b"], ["d", "d/a"]),
    "folders of which nothing is left": (["d", "d/e", "d/e/a", "f"], ["d/e/a"], ["f"]),
    "an empty folder": (["d"], [], ["d"]),
    "a name that only begins so": (["d", "da"], ["da"], ["d"]),
}


@pytest.mark.parametrize("paths, objected, ticked", CHANGES.values(), ids=CHANGES)
def test_what_caused_a_hold_is_not_ticked_at_first(
    paths: list[str], objected: list[str], ticked: list[str]
) -> None:
    changes = [
        ChangeView(
            path=path, kind="created", type="file", outcome="hold" if path in objected else None
        )
        for path in paths
    ]
    assert ticked_at_first(changes) == ticked
    if ticked:
        chosen_paths(ticked, paths)  # it lands as it stands there


def test_a_list_of_what_is_held_says_which_calls_they_are(http: HttpServed) -> None:
    note(http, "c1", params={"command": "python3 tidy.py"})
    end = {"event": "ended", "call": "c1", "ending": "ran", "judgement": "hold", "landed": False}
    Store(http.dirs).append(record_of(end), durable=False)
    assert "python3 tidy.py" in let_in(http).client.get("/held").text


def test_a_card_says_whether_anybody_waits_for_the_answer(
    http: HttpServed, fake: FakeSupervisor
) -> None:
    gone, waits = question(http, "rm gone"), question(http, "rm waits")
    fake.questions.append({"id": waits.call, "agent": "main"})
    client = let_in(http).client
    try:
        assert "Nobody waits for the answer" in client.get(f"/approvals/{gone.call}").text
        assert "The agent waits for your answer" in client.get(f"/approvals/{waits.call}").text
        told = {one["call"]: one["waits"] for one in http.ask("GET", "/v1/approvals").json()}
        assert (told[gone.call], told[waits.call]) == (False, True)
    finally:
        fake.questions.clear()
        for asked in (gone, waits):
            Grants(http.dirs).close(asked.call, "denied", by="a test")


def test_what_runs_is_shown_with_trust_and_budgets(http: HttpServed) -> None:
    text = let_in(http).client.get("/").text
    assert "cell-1" in text
    assert "3 of 10 calls within a minute" in text
    assert "Trust:" in text


def test_nothing_is_sent_anew_that_the_browser_has(http: HttpServed) -> None:
    client = let_in(http).client
    (again,) = re.findall(r'id="part-now" hx-get="([^"]+)"', client.get("/").text)
    path = again.replace("&amp;", "&")
    assert client.get(path).status_code == 204
    assert client.get(path + "x").text.lstrip().startswith('<div id="part-now"')


def test_a_mistake_of_ours_shows_nothing_of_itself(
    http: HttpServed, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError("inside")

    own = let_in(http)
    monkeypatch.setattr("sandbox.page.asking.PageRequest.show_live", fails)
    answer = own.client.get("/")
    assert answer.status_code == 500
    assert "inside" not in answer.text
    assert "Traceback" not in answer.text
    assert "inside" in capfd.readouterr().err


BROWSER = """
import http.client, sys
place, cookie, path = sys.argv[1:]
sys.stdin.readline()
line = http.client.HTTPConnection(place)
line.request("GET", path, headers={"Cookie": cookie})
answer = line.getresponse()
print(answer.status, answer.read().decode().count("this browser belongs to agent"), flush=True)
"""


@pytest.mark.parametrize("agent", ["a", None])
def test_an_agents_browser_sees_nothing_with_a_cookie_of_a_person(
    http: HttpServed, agent: str | None
) -> None:
    own = let_in(http)
    cookie = "; ".join(f"{name}={value}" for name, value in own.client.cookies.items())
    words = [sys.executable, "-c", BROWSER, http.url.removeprefix("http://"), cookie, "/approvals"]
    pipe = subprocess.PIPE
    env = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        if agent is not None:
            one = register(http.dirs, process.pid, name=agent, source="test")
        answer = process.communicate("\n", 60)[0].split()
        if agent is not None:
            Agents(http.dirs).remove(one)
    assert answer == (["200", "0"] if agent is None else ["403", "1"])


def test_the_command_finds_the_server_that_runs(http: HttpServed, tmp_path: Path) -> None:
    assert is_served(http.dirs)
    assert served_port(http.dirs) == int(http.url.rpartition(":")[2])
    other = Dirs.under(tmp_path).create()
    assert not is_served(other)
    assert served_port(other) is None


def test_the_link_is_printed_at_a_terminal_alone(tmp_path: Path) -> None:
    status, out, err = Shell(tmp_path)("ui")
    assert (status, out) == (NOT_PERMITTED, "")
    assert "opening the page is a person's decision and needs a terminal" in err


def test_browsers_are_let_in_for_a_time_and_not_too_many() -> None:
    now = [0.0]
    logins = Logins(clock=lambda: now[0])
    first = logins.begin()
    assert logins.find(first) is not None
    now[0] += IDLE_SECONDS
    assert logins.find(first) is None
    many = [logins.begin() for _ in range(MOST_LOGINS + 1)]
    assert [logins.find(one) is not None for one in many] == [False] + [True] * MOST_LOGINS
    logins.end(many[-1])
    assert logins.find(many[-1]) is None
