# SPDX-License-Identifier: Apache-2.0
"""A command that could not work in a cell says why in one line; any other says nothing."""

from __future__ import annotations

import pytest

from policy.people.shortfall import Seen, explain_failure, fitting_images

SAID = {
    "a program of an image": (127, "bash: line 1: go: command not found", "--for go"),
    "a program of no known image": (127, "bash: line 1: frob: command not found", "`frob` is not"),
    "in a pipeline that went well": (0, "bash: line 3: cargo: command not found\n", "--for rust"),
    "another shell": (127, "sh: 1: yarn: not found", "node:22"),
    "what timeout starts": (127, "timeout: failed to run command ‘mvn’: No such file or directory",
                            "--for java"),
    "a name that is not resolved": (6, "curl: (6) Could not resolve host: example.com", "network"),
    "an index": (1, "npm error code EAI_AGAIN", "network"),
    "a clone": (128, "fatal: unable to access: Could not resolve host: x", "network"),
    "a server of an earlier call": (
        7, "curl: (7) Failed to connect to localhost port 3000 after 0 ms: Couldn't connect",
        "nothing listens",
    ),
    "an interpreter of the host": (
        127, "bash: line 1: .venv/bin/python: No such file or directory", "lockgate init"),
    "a script of an environment": (
        126, "bash: /w/.venv/bin/pytest: cannot execute: required file not found", "lockgate init"),
    "a linked work tree": (
        128, "fatal: not a git repository: /home/me/shop/.git/worktrees/feat", "lockgate init"),
    "a clone by hard links": (
        128, "fatal: hardlink different from source at 'x/.git/objects/84/ec69'", "--no-hardlinks"),
    "a remote over ssh": (128, "git@code.example: Permission denied (publickey).", "let a person"),
    "a remote with a login": (
        128, "fatal: could not read Username for 'https://code.example': No such device",
        "no token is in a cell",
    ),
    "no ssh at all": (128, "error: cannot run ssh: No such file or directory", "no ssh key"),
    "no key to sign with": (
        128, "error: cannot run gpg: No such file or directory\nerror: gpg failed to sign the data",
        "--no-gpg-sign",
    ),
    "a service": (1, "System has not been booted with systemd as init system", "services"),
    "an engine": (1, "Cannot connect to the Docker daemon at unix:///run/x.sock", "engine"),
}  # fmt: skip


@pytest.mark.parametrize("status, text, wanted", SAID.values(), ids=SAID)
def test_a_shortfall_of_the_cell_is_told(status: int, text: str, wanted: str) -> None:
    assert wanted in explain_failure(status, "", text)
    assert "\n" not in explain_failure(status, "", text)


QUIET = {
    "it went well": (0, "could not resolve host"),
    "it failed for another reason": (1, "AssertionError: 1 != 2"),
    "a test says so of a page": (1, "page not found"),
    "no program's name": (1, "error: rm -rf x; y: command not found"),
    "a module that is not there": (1, "ModuleNotFoundError: No module named 'x'"),
    "nothing": (1, ""),
    "it was ended": (None, "Could not resolve host"),
}


SEEN = Seen("/home/me/w", ("/home/me/w", "/home/me/o"), ("/home/me", "/home/reading"))
UNSEEN = {
    "a note of the agent's": ("cat: /home/me/.agent/n.md: No such file or directory", True),
    "at home in the cell": ("cat: /home/reading/x: No such file or directory", True),
    "beside the workspace": ("ls: cannot access '../x/a': No such file or directory", True),
    "a temporary file": ("cat: /tmp/x: No such file or directory", True),
    "opened by a program": ("FileNotFoundError: [Errno 2] No such file or directory: '/home/me/n'",
                            True),
    "in the workspace": ("cat: /home/me/w/n: No such file or directory", False),
    "in the other one": ("cat: ../o/n: No such file or directory", False),
    "of the system": ("cat: /etc/n: No such file or directory", False),
    "a plain name": ("cat: n: No such file or directory", False),
}  # fmt: skip


@pytest.mark.parametrize("text, told", UNSEEN.values(), ids=UNSEEN)
def test_what_the_cell_does_not_see_is_told(text: str, told: bool) -> None:
    said = explain_failure(1, "", text, seen=SEEN)
    assert ("a cell sees `/home/me/w`, `/home/me/o` and nothing else" in said) == told
    assert explain_failure(0, "", text, seen=SEEN) == ""


@pytest.mark.parametrize("status, text", QUIET.values(), ids=QUIET)
def test_everything_else_is_quiet(status: int | None, text: str) -> None:
    assert explain_failure(status, "", text) == ""


def test_the_output_counts_only_where_the_command_failed() -> None:
    assert explain_failure(127, "bash: line 1: go: command not found", "") != ""
    assert explain_failure(0, "bash: line 1: go: command not found", "") == ""


def test_a_long_text_is_looked_at_by_its_end() -> None:
    text = "could not resolve host\n" + "localhost " * 200_000
    assert explain_failure(1, "", text) == ""


def test_a_project_gets_the_image_that_fits() -> None:
    assert fitting_images(["src", "go.mod", "pom.xml", "yarn.lock", "pnpm-lock.yaml"]) == (
        "--for go", "--for java", "--from node:22-bookworm --tag NAME",
    )  # fmt: skip
    assert fitting_images(["README.md"]) == ()


def test_what_was_told_of_the_network_is_not_told_twice() -> None:
    text = "curl: (6) Could not resolve host: example.com"
    assert explain_failure(6, "", text, reach="") == ""
    assert explain_failure(6, "", text) != ""
