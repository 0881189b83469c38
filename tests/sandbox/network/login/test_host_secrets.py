# SPDX-License-Identifier: Apache-2.0
"""Secrets are read where a person said, and never where an agent could decide what is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policy.credentials import Credential
from sandbox.network.login import commands
from sandbox.network.login.host_secrets import NoSecret, SecretReader
from sandbox.network.login.uses import Secret

VALUE = "s3cret-of-a-person"
HOST = "code.example:443"


class World:
    """A home, a workspace of agents, and a reader."""

    def __init__(self, root: Path) -> None:
        root = root.resolve()
        self.home, self.work = root / "home", root / "home" / "work"
        self.work.mkdir(parents=True)
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

    def read(self, secret: dict[str, Any], **fields: Any) -> Secret:
        """Read a secret of these words."""
        said = {"id": "code", "hosts": ["code.example"], "because": "ours", "form": "bearer",
                "secret": secret, **fields}  # fmt: skip
        reader = SecretReader(lambda: [str(self.work)], self.env, str(self.home))
        return reader.read(Credential.model_validate(said), HOST)

    def file(self, place: Path, text: str = f"{VALUE}\n", mode: int = 0o600) -> Path:
        """Make a file."""
        place.write_text(text)
        place.chmod(mode)
        return place


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_each_source_is_read(world: World) -> None:
    world.env["TOKEN"] = VALUE
    token = world.file(world.home / "token")
    assert world.read({"variable": "TOKEN"}) == Secret(VALUE)
    assert world.read({"file": str(token)}) == Secret(VALUE)
    assert world.read({"file": "~/token"}) == Secret(VALUE)
    assert world.read({"command": ["cat", str(token)]}) == Secret(VALUE)
    assert world.read({"command": ["echo", "$HOME; `id`"]}) == Secret("$HOME; `id`")
    basic = {"form": "basic", "user": "me"}
    assert world.read({"file": str(token)}, **basic) == Secret(VALUE, "me")


def test_the_credential_helpers_of_git_are_asked_for_the_host(world: World) -> None:
    helper = '!f() { cat >"$HOME/asked"; echo username=me; echo password=' + VALUE + "; }; f"
    (world.home / ".gitconfig").write_text(f'[credential]\n\thelper = "{_escaped(helper)}"\n')
    world.env["GIT_CONFIG_COUNT"] = "1"  # no variable of git's decides
    assert world.read({"git": True}, form="basic") == Secret(VALUE, "me")
    assert "host=code.example\n" in (world.home / "asked").read_text()
    (world.home / ".gitconfig").write_text("")
    with pytest.raises(NoSecret):
        world.read({"git": True}, form="basic")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _in_workspace(world: World) -> dict[str, Any]:
    return {"file": str(world.file(world.work / "token"))}


def _linked(world: World) -> dict[str, Any]:
    world.file(world.home / "true")
    (world.home / "token").symlink_to(world.home / "true")
    return {"file": str(world.home / "token")}


def _below_a_link(world: World) -> dict[str, Any]:
    (world.home / "keys").mkdir()
    world.file(world.home / "keys" / "token")
    (world.home / "way").symlink_to(world.home / "keys")
    return {"file": str(world.home / "way" / "token")}


def _writable(world: World) -> dict[str, Any]:
    return {"file": str(world.file(world.home / "token", mode=0o622))}


def _fifo(world: World) -> dict[str, Any]:
    os.mkfifo(world.home / "token", 0o600)
    return {"file": str(world.home / "token")}


def _two_lines(world: World) -> dict[str, Any]:
    return {"file": str(world.file(world.home / "token", f"{VALUE}\r\nHost: x"))}


def _short(world: World) -> dict[str, Any]:
    return {"file": str(world.file(world.home / "token", "abc"))}


def _long(world: World) -> dict[str, Any]:
    return {"file": str(world.file(world.home / "token", "x" * 20_000))}


def _program_of_the_workspace(world: World) -> dict[str, Any]:
    world.file(world.work / "gh", f"#!/bin/sh\necho {VALUE}\n", 0o755)
    world.env["PATH"] = f"{world.work}:.:{world.env['PATH']}"
    return {"command": ["gh", "auth", "token"]}


def _argument_of_the_workspace(world: World) -> dict[str, Any]:
    return {"command": ["python3", str(world.file(world.work / "tok.py", f"print('{VALUE}')"))]}


def _argument_behind_a_link(world: World) -> dict[str, Any]:
    """The last step leads out of the workspace again, but an agent may change where."""
    (world.work / "way").symlink_to(world.file(world.home / "token"))
    (world.home / "way").symlink_to(world.work / "way")
    return {"command": ["cat", f"{world.home}/way"]}


def _text_of_the_workspace(world: World) -> dict[str, Any]:
    world.file(world.work / "tok", f"echo {VALUE}")
    return {"command": ["sh", "-c", "true; . ~/work/tok"]}


def _interpreter_of_the_workspace(world: World) -> dict[str, Any]:
    own = world.file(world.work / "own", f"#!/bin/sh\necho {VALUE}\n", 0o755)
    return {"command": [str(world.file(world.home / "tok", f"#!{own}\n", 0o755))]}


def _home_of_the_workspace(world: World) -> dict[str, Any]:
    world.home = world.work
    return {"command": ["echo", VALUE]}


def _program_behind_a_link(world: World) -> dict[str, Any]:
    tool = world.file(world.work / "tool", f"#!/bin/sh\necho {VALUE}\n", 0o755)
    (world.home / "tool").symlink_to(tool)
    return {"command": [str(world.home / "tool")]}


REFUSED: dict[str, tuple[Callable[[World], dict[str, Any]], str]] = {
    "a file of a workspace": (_in_workspace, "lies in a workspace"),
    "a link": (_linked, "goes over a link"),
    "a file below a link": (_below_a_link, "goes over a link"),
    "a file that others write": (_writable, "can be written by others"),
    "no plain file": (_fifo, "is no plain file"),
    "no file": (lambda _: {"file": "/nowhere/at/all"}, "cannot be read"),
    "two lines": (_two_lines, "a line end"),
    "a short one": (_short, "shorter than 8"),
    "a long one": (_long, "too long"),
    "no variable": (lambda _: {"variable": "TOKEN"}, "without `TOKEN`"),
    "a program of a workspace": (_program_of_the_workspace, "no program `gh` outside"),
    "a word of a workspace": (_argument_of_the_workspace, "word of the command `python3`"),
    "a word over a link": (_argument_behind_a_link, "word of the command `cat`"),
    "a text that names one": (_text_of_the_workspace, "word of the command `sh`"),
    "a script run by one": (_interpreter_of_the_workspace, "lies in a workspace"),
    "a home in a workspace": (_home_of_the_workspace, "your home lies in a workspace"),
    "a program behind a link": (_program_behind_a_link, "lies in a workspace"),
    "a command that never ends its line": (lambda _: {"command": ["yes"]}, "too long"),
    "a command that fails": (lambda _: {"command": ["false"]}, "`false` ended with status 1"),
    "a command that says nothing": (lambda _: {"command": ["true"]}, "empty"),
}


@pytest.mark.parametrize("make, why", REFUSED.values(), ids=REFUSED)
def test_what_an_agent_could_decide_is_not_read(
    world: World, make: Callable[[World], dict[str, Any]], why: str
) -> None:
    with pytest.raises(NoSecret, match=why) as told:
        world.read(make(world))
    assert VALUE not in str(told.value)


def test_a_command_that_waits_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 0.2)
    with pytest.raises(NoSecret, match="took longer"):
        world.read({"command": ["sh", "-c", "sleep 600; echo never"]})


def test_a_command_gets_few_variables(world: World) -> None:
    """None that an agent's word could be in decides what runs; those that a person names count."""
    world.file(world.work / "sitecustomize.py", "print('an-agents-word')")
    world.env |= {"PYTHONPATH": str(world.work), "BASH_ENV": str(world.work / "x"), "SHOWN": "a",
                  "GNUPGHOME": f"{world.work}/keys", "LANG": "C.UTF-8", "XDG_CONFIG_HOME": "/x",
                  "HOME": str(world.work), "NAMED": str(world.work)}  # fmt: skip
    told = "import os; print(sorted(os.environ), os.environ['HOME'])"
    secret = {"command": ["python3", "-c", told], "env": ["SHOWN", "NAMED"]}
    assert world.read(secret).value.replace("'LC_CTYPE', ", "") == (
        "['GCM_INTERACTIVE', 'GIT_ASKPASS', 'GIT_TERMINAL_PROMPT', 'HOME', 'LANG', 'PATH', "
        f"'SHOWN', 'SSH_ASKPASS'] {world.home}"
    )


def test_what_a_command_prints_is_in_no_file(world: World) -> None:
    told = "import os; print(os.readlink('/proc/self/fd/1'))"
    assert world.read({"command": ["python3", "-c", told]}).value.startswith("pipe:")


def test_a_command_may_leave_a_program_behind(world: World) -> None:
    """An agent for keys that holds its output open does not make it wait."""
    assert world.read({"command": ["sh", "-c", f"sleep 15 & echo {VALUE}"]}) == Secret(VALUE)


HELPER = '[credential]\n\thelper = "!f() { echo username=me; echo password=' + VALUE + '; }; f"\n'
SETTINGS = {
    "an include": "[include]\n\tpath = {work}/settings\n",
    "an include that may come to be": "[include]\n\tpath = ~/work/later\n" + HELPER,
    "an include by its place": '[includeIf "gitdir:/x"]\n\tpath = work/later\n' + HELPER,
    "a helper": "[credential]\n\thelper = {work}/helper\n" + HELPER,
    "what a helper reads": "[credential]\n\thelper = store --file={work}/x\n" + HELPER,
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_git_obeys_no_settings_of_a_workspace(world: World, settings: str) -> None:
    world.file(world.work / "settings", HELPER)
    (world.home / "elsewhere").write_text(HELPER)
    (world.home / ".gitconfig").write_text(f"[include]\n\tpath = {world.home}/elsewhere\n")
    assert world.read({"git": True}, form="basic") == Secret(VALUE, "me")  # the control
    (world.home / ".gitconfig").write_text(settings.replace("{work}", str(world.work)))
    with pytest.raises(NoSecret, match=r"in(to)? a workspace"):
        world.read({"git": True}, form="basic")
