# SPDX-License-Identifier: Apache-2.0
"""The observer: what it tells of a layer, and what becomes of it in floods, losses and death."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.inotify_c import InotifyFD

from sandbox.cell.journal.removal import remove
from sandbox.cell.observer import client as watch
from sandbox.cell.observer import process
from sandbox.cell.observer.client import Watch
from sandbox.cell.observer.process import Watcher
from sandbox.cell.observer.trail import COPIED, CREATED, KEPT, MOVED, TOLD, Event, Trail
from sandbox.cell.run import call_host as host
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing

PATTERNS = {
    "hide": [],
    "show": [],
    "pin": [r"(?:.*/)?\.devkit-waiver[^/]*", r"(?:.*/)?governance/rules\.yml"],
    "above": [r"(?:.*/)?governance"],
}
WAIVER = ".devkit-waiver.yml"
SECONDS = 120.0
PAUSE = "; pause; "


class Layer:
    """A folder as a keeper makes them, under watch."""

    def __init__(self, observer: Watch, root: Path, lower: Path | None = None) -> None:
        self.observer = observer
        self.root = root
        self.upper = root / "upper"
        for folder in (self.upper, root / "work"):
            folder.mkdir(parents=True, exist_ok=True)
        observer.begin(str(root), str(lower or root))
        observer.ensure(str(root))

    def do(self, script: str) -> None:
        """Run a script in what the call sees; at each PAUSE the observer catches up."""
        for part in script.split(PAUSE):
            subprocess.run(["bash", "-ec", part], cwd=self.upper, check=True)
            if part is not script:
                self.settled()

    def settled(self) -> watch.Watched:
        """Return what the observer knows when it has handled everything until now."""
        self.observer.mark(str(self.root))
        return self.observer.settle(str(self.root))

    def alarm(self) -> tuple[str, list[tuple[str, ...]]] | None:
        """Return the protected path and the events that led to it; None after all was handled."""
        found = self.settled().alarm
        if found is None:
            return None
        return found["path"], [tuple(event.values()) for event in found["events"]]


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.setattr(watch, "SETTLE_SECONDS", SECONDS)
    monkeypatch.setattr(watch, "ALIVE_SECONDS", SECONDS)
    one = Watch(PATTERNS)
    yield one
    one.close()


@pytest.fixture
def layer(observer: Watch, tmp_path: Path) -> Layer:
    return Layer(observer, tmp_path / "layer")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def suspend(pid: int) -> None:
    """Stop a process, and wait until each of its threads stands still."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    wait_for(
        lambda: all(
            one.read_text("utf-8").rpartition(")")[2].split()[0] == "T"
            for one in threads.glob("*/stat")
        )
    )


APPEARS: dict[str, tuple[str, str, list[tuple[str, ...]]]] = {
    "it is created": (f"echo x >{WAIVER}", WAIVER, [("created", WAIVER)]),
    "it is moved there": (
        f"echo x >tmp1; echo y >other; mv tmp1 {WAIVER}",
        WAIVER,
        [("created", "tmp1"), ("moved", WAIVER, "tmp1")],
    ),
    "it is moved there by a detour": (
        f"echo x >a; mv a b; mkdir c{PAUSE}mv b c/b; mv c/b {WAIVER}",
        WAIVER,
        [
            ("created", "a"),
            ("moved", "b", "a"),
            ("created", "c"),
            ("moved", "c/b", "b"),
            ("moved", WAIVER, "c/b"),
        ],
    ),
    "it is a hard link": (f"echo x >t; ln t {WAIVER}", WAIVER, [("linked", WAIVER)]),
    "it is a symbolic link": (f"ln -s t {WAIVER}", WAIVER, [("linked", WAIVER, "t")]),
    "it is a folder": (f"mkdir {WAIVER}", WAIVER, [("created", WAIVER)]),
    "its name is spelled otherwise": (
        "echo x >'.DevKit-Waiver.YML.'",
        ".DevKit-Waiver.YML.",
        [("created", ".DevKit-Waiver.YML.")],
    ),
    "the folder above it is renamed": (
        f"mkdir d{PAUSE}echo x >d/rules.yml; mv d governance",
        "governance/rules.yml",
        [("created", "d"), ("created", "d/rules.yml"), ("moved", "governance", "d"),
         ("moved", "governance/rules.yml", "d/rules.yml")],
    ),
    "a link stands in for its folder": (
        "mkdir evil; ln -s evil governance",
        "governance",
        [("linked", "governance", "evil")],
    ),
    "a link to its folder is moved there": (
        f"mkdir evil; ln -s evil l{PAUSE}mv l governance",
        "governance",
        [("linked", "l", "evil"), ("moved", "governance", "l")],
    ),
    "it is written through a linked folder": (
        f"mkdir d; ln -s d l{PAUSE}echo x >l/{WAIVER}",
        f"d/{WAIVER}",
        [("created", "d"), ("created", f"d/{WAIVER}")],
    ),
    "it is gone again at the end": (
        f"echo x >{WAIVER}{PAUSE}rm {WAIVER}",
        WAIVER,
        [("created", WAIVER)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("script", "path", "events"), APPEARS.values(), ids=APPEARS)
def test_a_protected_path_that_appears_is_told_with_what_led_there(
    layer: Layer, script: str, path: str, events: list[tuple[str, ...]]
) -> None:
    layer.do(script)
    assert layer.alarm() == (path, events)


@pytest.mark.parametrize("script", [case[0] for case in APPEARS.values()], ids=APPEARS)
def test_the_same_with_other_names_is_no_alarm(layer: Layer, script: str) -> None:
    plain = script.replace(".devkit-waiver", ".devkit").replace("DevKit-Waiver", "DevKit")
    layer.do(plain.replace("governance", "government"))
    assert layer.alarm() is None


@pytest.fixture
def overlay(observer: Watch) -> Iterator[tuple[Overlay, Layer]]:
    """Give a real overlay mount whose layer is under watch."""
    if reason := missing():
        cannot_run(reason)
    prepare = "mkdir -p d/e governance; echo 1 >d/rules.yml; echo 2 >d/e/rules.yml; echo a >a"
    prepare += f"; echo w >sub; mkdir deep; echo x >deep/{WAIVER}; echo r >governance/rules.yml"
    with Overlay(prepare=prepare) as opened:
        yield opened, Layer(observer, opened.upper.parent, opened.lower)


BROUGHT = {
    "a folder of the workspace is renamed": ("mv governance old; mv d governance", 2),
    "a folder within one is renamed": ("mkdir n; mv d/e n/governance", 2),
    "a renamed folder is renamed again": ("mv d x; mv x/e x/governance", 2),
    "a file of the workspace is moved there": (f"mv a {WAIVER}", 1),
    "it is written": (f"echo y >>deep/{WAIVER}", 1),
    "it is deleted": (f"rm deep/{WAIVER}", 1),
    "its folder is renamed": ("mv deep other", 1),
}


@pytest.mark.parametrize(("script", "least"), BROUGHT.values(), ids=BROUGHT)
def test_what_the_workspace_holds_is_seen_when_it_comes_to_a_protected_path(
    overlay: tuple[Overlay, Layer], script: str, least: int
) -> None:
    opened, layer = overlay
    opened.call(script)
    found = layer.alarm()
    assert found is not None
    assert len(found[1]) >= least - 1


QUIET = {
    "a folder beside is renamed": "mv d government",
    "a file is written and another deleted": "echo x >>a; rm sub",
    "a folder with nothing protected is renamed twice": "mv d/e d/f; mv d x; rm -r x",
}


@pytest.mark.parametrize("script", QUIET.values(), ids=QUIET)
def test_what_the_workspace_holds_elsewhere_is_no_alarm(
    overlay: tuple[Overlay, Layer], script: str
) -> None:
    opened, layer = overlay
    opened.call(script)
    assert layer.alarm() is None


def test_an_alarm_comes_by_itself(layer: Layer) -> None:
    layer.do(f"echo x >{WAIVER}")
    heard: list[Any] = []
    wait_for(lambda: heard or heard.__iadd__(layer.observer.take()))
    assert [(name, seen.alarm and seen.alarm["path"]) for name, seen in heard] == [
        (str(layer.root), WAIVER)
    ]
    assert layer.observer.take() == []  # once


def test_a_layer_is_watched_no_more_when_that_is_said(observer: Watch, tmp_path: Path) -> None:
    one, other = Layer(observer, tmp_path / "one"), Layer(observer, tmp_path / "other")
    observer.forget(str(one.root))
    wait_for(lambda: observer.take() == [] and not observer.knows(str(one.root)))
    one.do(f"echo x >{WAIVER}")
    assert other.alarm() is None
    other.do(f"echo x >{WAIVER}")
    assert other.alarm() is not None


# Floods, losses, death


def test_an_event_in_a_tree_of_6000_folders_arrives(observer: Watch, tmp_path: Path) -> None:
    """watchdog 7.1 without an event filter delivers nothing here, ever."""
    upper = tmp_path / "layer" / "upper"
    for number in range(6000):
        (upper / f"d{number // 100}" / f"e{number % 100}").mkdir(parents=True)
    layer = Layer(observer, tmp_path / "layer")
    layer.do(f"echo x >d59/e99/{WAIVER}")
    heard: list[Any] = []
    wait_for(lambda: heard or heard.__iadd__(observer.take()))
    assert layer.alarm() == (f"d59/e99/{WAIVER}", [("created", f"d59/e99/{WAIVER}")])


def test_a_flood_of_folders_is_followed(layer: Layer) -> None:
    layer.do("for i in {1..40}; do mkdir -p $i/{1..50}; done; mkdir -p x/y/z")
    layer.settled()
    layer.do(f"echo x >40/50/{WAIVER}")
    found = layer.alarm()
    assert found is not None
    assert found[0] == f"40/50/{WAIVER}"


DEEP = """
import os
for step in range({depth}):
    os.mkdir("d")
    os.chdir("d")
"""


@pytest.mark.parametrize("depth", [1_200, 3_000], ids=["it has a path", "it has none"])
def test_no_depth_ends_the_observer(
    layer: Layer, monkeypatch: pytest.MonkeyPatch, depth: int
) -> None:
    monkeypatch.setattr(watch, "SETTLE_SECONDS", 10.0)
    try:
        program = DEEP.format(depth=depth)
        subprocess.run([sys.executable, "-c", program], cwd=layer.upper, check=True)
        layer.settled()
        layer.do("mv d e; mkdir f; mv e f/e")
        seen = layer.settled()
        assert layer.observer.lost == ""
        assert (seen.lossy or seen.behind, seen.alarm) == (True, None)  # the walk decides
    finally:
        for path in list(layer.upper.iterdir()):
            remove(str(layer.upper), path.name)


@pytest.mark.parametrize("few", [0, 3], ids=["enough watches", "few watches"])
def test_folders_beyond_the_watches_of_a_user_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    """watchdog says nothing where a folder cannot be watched; what appears there is found late."""
    original, watched = InotifyFD.add_callback, set()

    def limited(self: InotifyFD, path: bytes, *more: Any) -> Any:
        watched.add(path)
        if few and len(watched) > few:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        return original(self, path, *more)

    monkeypatch.setattr(InotifyFD, "add_callback", limited)
    monkeypatch.setattr(
        "sandbox.cell.observer.process.inotify_add_watch", lambda *_: -1
    )  # the second try
    observer = Watch(PATTERNS)
    try:
        layer = Layer(observer, tmp_path / "layer")
        layer.do("mkdir -p a/b/c/d")
        assert layer.settled().lossy is bool(few)
        layer.do(f"sleep 0.5; echo x >a/b/c/d/{WAIVER}")  # nothing else tells of it
        heard: list[Any] = []
        wait_for(lambda: heard or heard.__iadd__(observer.take()))
        assert heard[0][1].alarm["path"] == f"a/b/c/d/{WAIVER}"
    finally:
        observer.close()


MANY = "import os\nfor i in range({n}):\n    os.close(os.open(f'f{{i}}', os.O_CREAT, 0o644))\n"


def test_an_observer_that_is_behind_is_not_taken_for_dead(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SETTLE_SECONDS", 0.0)
    for _ in range(20):  # it may catch up before anybody asks
        subprocess.run([sys.executable, "-c", MANY.format(n=100_000)], cwd=layer.upper, check=True)
        seen = layer.settled()
        assert (seen.alarm, layer.observer.lost) == (None, "")
        if seen.behind:
            break
    assert seen.behind
    monkeypatch.setattr(watch, "SETTLE_SECONDS", SECONDS)
    layer.do(f"echo x >{WAIVER}")
    found = layer.alarm()  # it goes on
    assert found is not None
    assert found[0] == WAIVER


def test_what_an_overflow_lost_is_found_by_looking(layer: Layer) -> None:
    suspend(layer.observer.pid)  # so that the kernel's queue overflows for sure
    try:
        subprocess.run([sys.executable, "-c", MANY.format(n=40_000)], cwd=layer.upper, check=True)
        layer.do(f"mkdir late; echo x >late/{WAIVER}")
    finally:
        os.kill(layer.observer.pid, signal.SIGCONT)
    found = layer.alarm()
    assert found is not None
    assert found[0] == f"late/{WAIVER}"
    assert layer.settled().lossy
    assert layer.observer.lost == ""


def test_an_overflow_without_anything_protected_is_no_alarm(layer: Layer) -> None:
    suspend(layer.observer.pid)
    try:
        subprocess.run([sys.executable, "-c", MANY.format(n=40_000)], cwd=layer.upper, check=True)
    finally:
        os.kill(layer.observer.pid, signal.SIGCONT)
    seen = layer.settled()
    assert (seen.lossy, seen.behind, seen.alarm) == (True, False, None)


RENAMES = """
for i in $(seq 150); do
    mkdir -p a/x/y; mv a b; mkdir -p a/x; mv b/x/y a/x/y; rmdir a/x/y; rm -r a b
    mkdir c; mv c d; mkdir c; rmdir c; rmdir d
done
"""


def test_folders_renamed_away_made_anew_and_deleted_do_not_end_the_watching(layer: Layer) -> None:
    layer.do(RENAMES)
    layer.settled()
    layer.do(f"mkdir -p a/x; echo x >a/x/{WAIVER}")
    found = layer.alarm()
    assert found is not None
    assert found[0] == f"a/x/{WAIVER}"


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Watcher, socket.socket]]:
    """Give an observer that runs in a thread of this process, so that it can be hurt."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one = Watcher(theirs)
    thread = threading.Thread(target=one.run)
    thread.start()
    host.send(ours, {"op": "rules", "patterns": PATTERNS})
    yield one, ours
    ours.shutdown(socket.SHUT_RDWR)
    thread.join(SECONDS)
    one.close()
    ours.close()
    theirs.close()


def said(sock: socket.socket, op: str) -> dict[str, Any]:
    """Return the next message of a kind."""
    sock.settimeout(SECONDS)
    while True:
        message, _ = host.receive(sock)
        assert message is not None
        if message["op"] == op:
            return message


def test_a_reader_that_dies_is_replaced_and_nothing_is_missed(
    watcher: tuple[Watcher, socket.socket], tmp_path: Path
) -> None:
    one, sock = watcher
    (tmp_path / "upper").mkdir()
    (tmp_path / "mark.0").touch()
    host.send(sock, {"op": "watch", "layer": str(tmp_path), "lower": str(tmp_path)})
    said(sock, "watching")
    dead: Any = one._observer.reader

    def dies(_event: object) -> None:
        raise KeyError("as folders that are renamed away make it")

    dead.handle_event = dies
    (tmp_path / "upper" / WAIVER).touch()  # the reader dies of this very event
    assert said(sock, "alarm")["path"] == WAIVER
    assert said(sock, "settled")["lossy"]
    wait_for(lambda: not dead.is_alive())
    (tmp_path / "mark.0").rename(tmp_path / "mark.1")  # and the next one works
    assert said(sock, "settled")["mark"] == 1


def test_an_observer_that_was_killed_is_noticed(layer: Layer) -> None:
    os.kill(layer.observer.pid, signal.SIGKILL)
    wait_for(lambda: layer.observer.take() == [] and layer.observer.lost)
    assert layer.observer.lost == "its process ended"
    assert not layer.settled().behind
    with pytest.raises(OSError, match="the layer cannot be watched: its process ended"):
        Layer(layer.observer, layer.root.parent / "next")


def test_an_observer_that_does_not_answer_is_taken_for_dead(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(watch, "ALIVE_SECONDS", 0.5)
    suspend(layer.observer.pid)
    layer.settled()
    assert layer.observer.lost == "it does not answer"


def test_a_layer_that_cannot_be_watched_is_refused(observer: Watch, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    observer.begin(str(tmp_path / "gone"), str(tmp_path))
    layer = str(tmp_path / "gone" / "missing")
    observer._layers[layer] = watch.Watched()
    observer._send({"op": "watch", "layer": layer, "lower": "/"})
    with pytest.raises(OSError, match="the layer cannot be watched: "):
        observer.ensure(layer)


# What is remembered


def test_the_trail_follows_moves_backwards_and_leaves_out_the_rest() -> None:
    trail = Trail()
    for event in (
        Event(CREATED, "d"),
        Event(CREATED, "d/a"),
        Event(CREATED, "other"),
        Event(MOVED, "e", "d"),
        Event(COPIED, "x"),
        Event(MOVED, "f/b", "e/a"),
        Event(MOVED, "target", "f/b"),
    ):
        trail.add(event)
    assert [event.path for event in trail.leading_to("target")] == [
        "d",
        "d/a",
        "e",
        "f/b",
        "target",
    ]
    assert trail.leading_to("nothing") == []


def test_the_trail_is_bounded() -> None:
    trail = Trail()
    for number in range(10 * KEPT):
        trail.add(Event(MOVED, "a", "b") if number % 2 else Event(MOVED, "b", "a"))
    assert len(trail.leading_to("a")) == TOLD


def test_half_a_move_holds_nothing_up(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    """watchdog would wait half a second for the other half of each of these."""
    monkeypatch.setattr(watch, "SETTLE_SECONDS", 40.0)
    layer.do("for i in {1..120}; do echo x >a; mv a ../../; done; rm ../../a")
    found = layer.settled()
    assert (found.behind, found.alarm) == (False, None)


OWN, NESTED = "../work/work/#", "src/a/b/c/d"
HALVES = {
    "of the overlay's own it is not waited for": (
        f"d=.; for n in {NESTED.replace('/', ' ')}; "
        f"do mkdir {OWN}1; mv {OWN}1 $d/$n; d=$d/$n; done; "
        f"echo x >{OWN}2; mv {OWN}2 {NESTED}/{WAIVER}",
        False,
    ),
    "of anybody's it is waited for": ("mkdir x; mv x ../../", True),
}


@pytest.mark.parametrize("script, behind", HALVES.values(), ids=HALVES)
def test_for_the_other_half_of_a_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, behind: bool
) -> None:
    """Below a folder that is new it is never heard, and what appears there is, all the same."""
    monkeypatch.setattr(process, "PAIR_SECONDS", 10 * SECONDS)
    monkeypatch.setattr(watch, "SETTLE_SECONDS", SECONDS if not behind else 0.5)
    monkeypatch.setattr(watch, "ALIVE_SECONDS", SECONDS)
    observer = Watch(PATTERNS)
    try:
        layer = Layer(observer, tmp_path / "layer")
        (layer.root / "work/work").mkdir()
        layer.do(script)
        found = layer.settled()
    finally:
        observer.close()
    assert found.behind == behind
    assert (found.alarm or {}).get("path") == (None if behind else f"{NESTED}/{WAIVER}")


def test_a_folder_that_watchdog_takes_for_another_is_watched_all_the_same(
    overlay: tuple[Overlay, Layer],
) -> None:
    """It looks for what came by its name, where the whiteout of the next move stands by then."""
    opened, layer = overlay
    suspend(layer.observer.pid)  # so that it is late for sure
    opened.call("mv d x")
    os.kill(layer.observer.pid, signal.SIGCONT)
    assert layer.alarm() is None
    opened.call("mkdir x/governance; echo y >x/governance/rules.yml")
    found = layer.alarm()
    assert found is not None
    assert found[0] == "x/governance/rules.yml"


@pytest.mark.parametrize("limit", ["max_user_instances", "max_user_watches"])
def test_a_limit_of_the_kernel_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    code = {"max_user_instances": errno.EMFILE, "max_user_watches": errno.ENOSPC}[limit]

    def refused(*_: Any) -> Any:
        raise OSError(code, "limit reached")

    what = "_create_inotify_fd" if code == errno.EMFILE else "add_callback"
    monkeypatch.setattr(InotifyFD, what, refused)
    observer = Watch(PATTERNS)
    try:
        with pytest.raises(watch.OutOfWatchers) as raised:
            Layer(observer, tmp_path / "layer")
    finally:
        observer.close()
    assert raised.value.limit == limit
    most = int(Path(f"/proc/sys/fs/inotify/{limit}").read_text())
    said = str(raised.value)
    assert f"all {most} that a user may have are taken (fs.inotify.{limit})" in said
    assert f"`sudo sysctl fs.inotify.{limit}={2 * most}`" in said
    assert "\n" not in said


def test_a_reader_that_died_is_replaced_where_there_is_room_for_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, closed = InotifyFD._create_inotify_fd, InotifyFD._close_resources
    there: list[int] = []

    def create() -> int:
        if there:
            raise OSError(errno.EMFILE, "inotify instance limit reached")
        there.append(original())
        return there[0]

    def close(self: InotifyFD) -> None:
        closed(self)
        there.clear()

    def handle(self: InotifyFD, event: Any) -> None:
        if b"deadly" in (event.name or b""):
            raise KeyError("a test")
        handled(self, event)

    handled = InotifyFD.handle_event
    monkeypatch.setattr(InotifyFD, "_create_inotify_fd", staticmethod(create))
    monkeypatch.setattr(InotifyFD, "_close_resources", close)
    monkeypatch.setattr(InotifyFD, "handle_event", handle)
    observer = Watch(PATTERNS)
    try:
        layer = Layer(observer, tmp_path / "layer")
        layer.do("echo x >deadly")
        layer.do(f"echo x >{WAIVER}")
        heard: list[Any] = []
        wait_for(lambda: observer.lost or heard or heard.__iadd__(observer.take()))
        assert (observer.lost, heard[0][1].alarm["path"]) == ("", WAIVER)
    finally:
        observer.close()
