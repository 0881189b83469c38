# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, before a real Lockgate: what a person does there happens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from sandbox.approvals.store.grants import Grants
from sandbox.host.latch import Latch
from sandbox.workspaces.registry import Registry
from tests.container.browsing import PHONE, Browsing, browsing, picture
from tests.container.served import served
from tests.container.test_session_undo import act
from tests.http_served import http_served
from tests.page_served import question

MAKES = """
import pathlib

pathlib.Path(".github/workflows").mkdir(parents=True)
pathlib.Path(".github/workflows/ci.yml").write_text("on: push\\n")
pathlib.Path("notes").write_text("x\\n")
"""
"""A program of a project that writes what is held, and an ordinary file."""
HOSTILE = (
    "rm '<img src=x onerror=alert(1)>' '</pre></dl><h1>Approved</h1>' \u202egnp.exe\u2069 "
    f"'\x1b[2J\x1b]0;t\x07' {'x/' * 1500}"
)


@pytest.fixture(scope="module")
def world(docker_client: Any, images: Any) -> Iterator[Browsing]:
    with ExitStack() as stack:
        shell = stack.enter_context(served(docker_client))
        (shell.workspace / "a.txt").write_text("one\n")
        (shell.workspace / "make.py").write_text(MAKES)
        http = stack.enter_context(http_served(shell.dirs))
        yield stack.enter_context(browsing(shell, http))


@pytest.fixture(autouse=True)
def answered(world: Browsing) -> Iterator[None]:
    """Leave no question to the next test."""
    yield
    grants = Grants(world.http.dirs)
    for one in grants.open_questions(time.time()):
        grants.close(one.request.call, "denied", by="a test")


def run(world: Browsing, command: str, **more: Any) -> dict[str, Any]:
    """Make a call and return what became of it."""
    place = Registry(world.http.dirs).list()[0].path
    answer = world.http.ask("POST", "/v1/calls", {"workspace": place, "command": command, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def settle(page: Page) -> None:
    """Wait until an answer counts."""
    expect(page.locator("[data-keys=ready]")).to_be_visible()


def test_a_key_approves_what_is_shown_and_another_denies(world: Browsing) -> None:
    first, second = question(world.http, "rm a.txt"), question(world.http, "git push origin main")
    with world.page("/approvals") as page:
        expect(page.locator("article")).to_contain_text("rm a.txt")
        picture(page, "approvals")
        settle(page)
        page.keyboard.press("a")
        expect(page.locator(".told")).to_contain_text("approved: exactly: rm a.txt")
        expect(page.locator("article")).to_contain_text("git push origin main")
        settle(page)
        page.keyboard.press("d")
        expect(page.locator(".told")).to_contain_text("denied: git push origin main")
    states = [Grants(world.http.dirs).asked(one.call).state for one in (first, second)]
    assert states == ["approved", "denied"]


def test_a_key_that_comes_before_a_card_is_read_answers_nothing(world: Browsing) -> None:
    asked = question(world.http, "rm a.txt")
    with world.page("/record") as page:
        page.clock.install(time=0)
        page.clock.pause_at(1)  # the page's time stands, however long it takes to load
        page.goto("/approvals")
        page.keyboard.press("a")
        expect(page.locator("[data-keys='']")).to_be_visible()
        assert Grants(world.http.dirs).asked(asked.call).state == "open"
        page.clock.run_for(1000)
        settle(page)
        page.keyboard.press("a")
        expect(page.locator(".told")).to_contain_text("approved: exactly: rm a.txt")


def test_the_chosen_line_says_how_far_a_yes_goes(world: Browsing) -> None:
    asked = question(world.http, "rm b.txt")
    with world.page(f"/approvals/{asked.call}") as page:
        settle(page)
        page.get_by_label("Always here").check()
        page.get_by_label("Reason, for the record").fill("it is a scratch file")
        page.get_by_role("button", name="Approve").click()
        page.get_by_role("button", name="Take back: only: rm b.txt").click()
        expect(page.locator(".told")).to_contain_text("taken back")
    (made,) = [one for one in Grants(world.http.dirs).all() if one.reason]
    assert (made.scope.value, made.reason) == ("program", "it is a scratch file")


def test_what_happens_appears_without_a_reload(world: Browsing) -> None:
    with world.page("/") as page:
        expect(page.locator("#waiting")).to_have_count(0)
        question(world.http, "rm c.txt")
        expect(page.locator("#waiting")).to_contain_text("1 call waits for you")
        expect(page).to_have_title("(1) Now · Lockgate")


def test_a_call_is_looked_at_and_undone(world: Browsing) -> None:
    made = run(world, "echo two > a.txt && echo done")
    assert made["landed"], made
    with world.page("/history") as page:
        page.get_by_label("Search").fill("echo TWO")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="echo two > a.txt").first.click()
        expect(page.locator("h1")).to_have_text("echo two > a.txt && echo done")
        expect(page.locator(".diff .added")).to_contain_text(["+two"])
        expect(page.get_by_label("Output", exact=True)).to_contain_text("done")
        picture(page, "call")
        page.get_by_role("link", name="Undo").click()
        expect(page.locator(".diff .removed")).to_contain_text(["-two"])
        page.get_by_role("button", name="Undo it").click()
        expect(page.locator(".told")).to_contain_text("taken back by")
    assert (world.shell.workspace / "a.txt").read_text() == "one\n"


def test_what_is_another_by_now_is_shown_anew(world: Browsing) -> None:
    made = run(world, "echo kept > kept.txt")
    with world.page(f"/calls/{made['id']}/undo") as page:
        page.locator("input[name=digest]").evaluate("one => { one.value = '0'.repeat(64) }")
        page.get_by_role("button", name="Undo it").click()
        expect(page.locator(".told")).to_contain_text("nothing was done")
        assert (world.shell.workspace / "kept.txt").exists()
        run(world, "echo later > kept.txt")
        page.get_by_role("button", name="Undo it").click()
        expect(page.locator("main")).to_contain_text("without losing later changes")
    assert (world.shell.workspace / "kept.txt").read_text() == "later\n"


def test_a_session_is_looked_at_and_taken_back_whole(world: Browsing) -> None:
    steps = [["sh", "echo 1 > s.txt"], ["write", "t.txt", "2\n"]]
    act(world.shell, "5a1e-page", *steps)
    with world.page("/sessions") as page:
        page.locator("a[href='/session?id=5a1e-page']").click()
        expect(page.locator(".diff .added")).to_contain_text(["+1", "+2"])
        picture(page, "session")
        page.get_by_role("link", name="Undo all of it").click()
        expect(page.locator(".diff .removed")).to_contain_text(["-1", "-2"])
        page.get_by_role("button", name="Undo all of it").click()
        expect(page.locator(".told")).to_contain_text("2 calls taken back")
    assert not (world.shell.workspace / "s.txt").exists()
    assert not (world.shell.workspace / "t.txt").exists()


def test_a_part_of_what_is_held_lands(world: Browsing) -> None:
    made = run(world, "python3 make.py")
    assert made["judgement"] == "hold", made
    with world.page("/held") as page:
        row = page.locator(f"a[href='/held/{made['id']}']")
        expect(row).to_contain_text("python3 make.py")
        row.click()
        expect(page.get_by_label(".github/workflows/ci.yml")).not_to_be_checked()
        expect(page.locator("input[name=path][value=notes]")).to_be_checked()
        picture(page, "held")
        page.get_by_role("button", name="Land what is ticked").click()
        expect(page.locator(".told")).to_contain_text("landed 1 of")
    assert (world.shell.workspace / "notes").read_text() == "x\n"
    assert not (world.shell.workspace / ".github").exists()
    with world.page(f"/held/{made['id']}") as page:
        page.get_by_text("Throw all of it away").click()
        page.get_by_role("button", name="Throw it away").click()
        expect(page.locator("main")).to_contain_text("is thrown away")


def test_everything_is_stopped_and_goes_on(world: Browsing) -> None:
    with world.page("/policy") as page:
        page.get_by_role("button", name="Stop everything").click()
        expect(page.locator("h1")).to_have_text("Everything is stopped")
        assert Latch(world.http.dirs).read() is not None
        page.get_by_role("button", name="Let it run again").click()
        expect(page.locator(".told")).to_contain_text("everything may run again")
    assert Latch(world.http.dirs).read() is None


def test_what_an_agent_wrote_is_text_in_its_own_order(world: Browsing) -> None:
    asked = question(world.http, HOSTILE)
    for options in ({}, {"viewport": PHONE}):
        with world.page(f"/approvals/{asked.call}", **options) as page:
            assert page.locator("main img, main h1:has-text('Approved')").count() == 0
            text = page.locator("article").inner_text()
            assert "<img src=x onerror=alert(1)>" in text
            assert "\\u202egnp.exe\\u2069" in text
            assert "\\x1b[2J" in text
            width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, "the page is wider than its window"


def test_a_keyboard_alone_is_enough(world: Browsing) -> None:
    asked = question(world.http, "rm d.txt")
    with world.page("/") as page:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the content")
        page.keyboard.press("g")
        page.keyboard.press("a")
        expect(page.locator("article")).to_contain_text("rm d.txt")
        settle(page)
        page.get_by_label("Tell the agent why not").focus()
        page.keyboard.type("ada says no")  # letters of a text answer nothing
        page.keyboard.press("Enter")
        expect(page.locator(".told")).to_contain_text("denied: rm d.txt")
    assert Grants(world.http.dirs).asked(asked.call).reason == "ada says no"


LOOKS = ("/", "/approvals", "/history", "/sessions", "/held", "/policy", "/record?check=1")
WINDOWS: dict[str, dict[str, Any]] = {
    "wide and light": {},
    "a phone in the dark": {"viewport": PHONE, "color_scheme": "dark"},
}


@pytest.mark.parametrize("options", WINDOWS.values(), ids=WINDOWS)
def test_everybody_can_read_it(world: Browsing, options: dict[str, Any]) -> None:
    question(world.http, "git push --force origin main")
    made = run(world, "ls")
    place = Registry(world.http.dirs).list()[0].path
    tried = f"/policy?workspace={place}&command=rm%20-rf%20build"
    with world.page("/", **options) as page:
        for path in (*LOOKS, tried, f"/calls/{made['id']}"):
            page.goto(path)
            found = Axe().run(page).response["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert not serious, f"{path}: {json.dumps(serious, indent=1)[:3000]}"
            width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert width <= 0, f"{path} is wider than its window"
            if path == tried and not options:
                picture(page, "policy")
            if path == "/":
                expect(page.locator("#waiting")).to_be_visible()
                picture(page, "now" if not options else "now-phone")


PREVENTED = """(ready) => {
  document.querySelector("[data-keys]").dataset.keys = ready;
  let prevented = null;
  const look = (event) => { prevented = event.defaultPrevented; event.preventDefault(); };
  document.addEventListener("submit", look, { once: true });
  document.getElementById("approve").click();
  return prevented;
}"""
"""Whether a press of the button is kept from the server."""


def test_a_card_is_not_answered_before_it_could_be_read(world: Browsing) -> None:
    asked = question(world.http, "rm next-card")
    with world.page(f"/approvals/{asked.call}") as page:
        page.wait_for_selector("[data-keys=ready]")
        assert [page.evaluate(PREVENTED, one) for one in ("", "ready")] == [True, False]
        page.click("#approve")
        page.wait_for_url("**/approvals")
    assert Grants(world.http.dirs).asked(asked.call).state == "approved"


def test_nothing_was_asked_of_elsewhere_and_nothing_was_forbidden(world: Browsing) -> None:
    """The last of the module: no page of those above loaded or tried what it must not."""
    with world.page("/"):
        pass
    assert world.elsewhere == []
    refused = "Failed to load resource"  # a page that says no has a status that says so too
    assert [one for one in world.errors if not one.startswith(refused)] == []
