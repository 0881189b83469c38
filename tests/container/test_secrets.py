# SPDX-License-Identifier: Apache-2.0
"""P5: a cell sees nothing of the host but its workspaces, and no secret in those."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.protected.paths import PathPolicy
from sandbox.cells.request import ENVIRONMENT, WITHOUT_NETWORK
from sandbox.containers.plan import LABEL_CELL
from tests.container.conftest import MakeLab
from tests.container.lab import ME, OWNERS, Lab, git, repository, wait_for


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


SECRET = "planted-" + "secret"  # in two pieces, so that no search finds this very file


@pytest.fixture
def sibling(lab: Lab) -> Path:
    """Return a folder beside the workspace that holds what people keep in their homes."""
    for name in (".ssh/id_rsa", ".aws/credentials", ".netrc", "project/notes.txt"):
        path = lab.ws.parent / "sibling" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{SECRET}\n")
    return lab.ws.parent / "sibling"


@pytest.mark.parametrize("owner", OWNERS)
def test_files_beside_the_workspace_cannot_be_read(lab: Lab, sibling: Path) -> None:
    look = (
        f"cat {sibling}/.ssh/id_rsa ../sibling/.netrc $PWD/../sibling/project/notes.txt; echo END"
    )
    control = subprocess.run(["bash", "-c", look], cwd=lab.ws, capture_output=True, text=True)
    assert control.stdout == f"{SECRET}\n" * 3 + "END\n"
    for found in (lab.sh(look), lab.read(look)):
        assert found.stdout == "END\n"
        assert found.stderr.count("No such file or directory") == 3
    assert lab.read("ls -A ..").stdout == f"{lab.ws.name}\n"


def test_links_out_of_the_workspace_lead_to_the_cells_own_files(lab: Lab, sibling: Path) -> None:
    (lab.ws / "out").symlink_to(sibling / ".netrc")
    (lab.ws / "etc").symlink_to("/etc")
    assert (lab.ws / "out").read_text() == f"{SECRET}\n"
    found = lab.sh("cat out; ln -s ../sibling mine; cat mine/.netrc; cat etc/hostname; hostname")
    assert found.stderr.count("No such file or directory") == 2
    name, same = found.stdout.split()
    assert name == same == lab.cell.attrs["Config"]["Hostname"]


def test_a_search_of_the_whole_cell_finds_no_planted_secret(lab: Lab, sibling: Path) -> None:
    (lab.ws / ".env").write_text(f"KEY={SECRET}\n")
    (lab.ws / "visible.txt").write_text(f"{SECRET}\n")
    search = (
        f"grep -rlsF {SECRET} /home /root /tmp /etc /mnt /media /run /srv /var /opt /cell; true"
    )
    assert lab.sh(search).stdout.split() == [f"{lab.ws}/visible.txt"]  # what may be seen is found


SECRETS = (
    *(".env", "sub/.env.local", "keys/id_rsa", "cert.pem", ".netrc", ".npmrc", ".pypirc"),
    *(".aws/credentials", "server.key"),
)
LOOKALIKES = (".env.example", "keys/id_rsa.pub", "env", "environment.py")


@pytest.mark.parametrize("owner", OWNERS)
def test_secrets_in_the_workspace_are_hidden_and_stay(
    make_lab: MakeLab, tmp_path: Path, owner: int
) -> None:
    folder = repository(tmp_path / "secretive", owner)
    for name in (*SECRETS, *LOOKALIKES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{SECRET}\n")
    lab = make_lab(folder)
    hidden = {path for path in SECRETS if PathPolicy.default().is_secret(path)}
    assert hidden >= {".env", "sub/.env.local", "keys/id_rsa", ".netrc"}
    names = (*sorted(hidden), *LOOKALIKES)
    look = "; ".join(f"test -e {name} && echo {name}" for name in names) + "; true"
    for found in (lab.read(look), lab.sh(look), lab.sh(look)):
        assert found.stdout.split() == list(LOOKALIKES)
    copied = lab.sh("mkdir copy && cp -r sub keys .[a-z]* *.pem copy/; find copy -type f")
    assert not any(name.removeprefix("copy/") in hidden for name in copied.stdout.split())
    assert all((folder / name).read_text() == f"{SECRET}\n" for name in names)


def test_a_hidden_secret_cannot_be_replaced_or_removed(lab: Lab) -> None:
    before = lab.text(".env")
    written = lab.sh("echo mine > .env; cat .env")
    assert (written.stdout, written.judgement, written.landed) == ("mine\n", "hold", False)
    assert [one.reason for one in written.changes] == ["it is hidden from calls, as a secret"]
    for command in ("rm -f .env", "mv README.md .env", "ln -sf README.md .env", "git clean -fdx"):
        lab.sh(command)
        assert lab.text(".env") == before


def test_a_secret_that_lands_is_hidden_from_the_next_call(lab: Lab) -> None:
    assert lab.sh("mkdir new && echo KEY=x > new/.env && cat new/.env").landed
    assert lab.text("new/.env") == "KEY=x\n"
    assert lab.read("cat new/.env").exit_status == 1
    assert lab.sh("cat new/.env").exit_status == 1


def test_the_hosts_environment_is_not_passed(lab: Lab) -> None:
    assert "PYTEST_CURRENT_TEST" in os.environ  # this very process has it
    look = "cat /proc/[0-9]*/environ | tr '\\0' '\\n'; env"
    for text in (lab.sh(look).stdout, lab.look(look, user="0")):
        assert "LOCKGATE_SANDBOX=1" in text
        assert "PYTEST_CURRENT_TEST" not in text


def test_the_environment_of_a_command_is_exactly_what_is_said(lab: Lab) -> None:
    found = lab.sh("env", env={"FOO": "bar baz", "TERM": "xterm"}, call_id="c1234567890")
    said = dict(row.split("=", 1) for row in found.stdout.splitlines())
    assert said == {
        "FOO": "bar baz",
        "HOME": "/home/agent",
        "LANG": "C.UTF-8",
        "LOCKGATE_CALL": "c1234567890",
        "LOCKGATE_SANDBOX": "1",
        "PATH": ENVIRONMENT["PATH"],
        "PWD": str(lab.ws),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "SHLVL": said["SHLVL"],
        "TERM": "xterm",
        "USER": "agent",
        "_": said["_"],
        **WITHOUT_NETWORK,
    }


def test_processes_of_the_host_are_not_seen(lab: Lab) -> None:
    with subprocess.Popen(["sleep", "61.75"]) as process:
        try:
            command = Path(f"/proc/{process.pid}/cmdline")
            wait_for(lambda: b"61.75" in command.read_bytes(), "the process is seen outside")
            look = "cat /proc/*/cmdline | tr '\\0' ' '; bash -c 'cat /proc/$$/cmdline' 61.25"
            found = lab.sh(look)
        finally:
            process.kill()
    assert "61.25" in found.stdout
    assert "61.75" not in found.stdout


@pytest.mark.parametrize("owner", OWNERS)
def test_no_path_of_the_host_is_mounted_but_the_workspaces(lab: Lab) -> None:
    rows = [row.split() for row in lab.sh("cat /proc/self/mountinfo").stdout.splitlines()]
    disks = {row[4] for row in rows if row[row.index("-") + 2].startswith("/dev/")}
    assert disks == {"/etc/resolv.conf", "/etc/hostname", "/etc/hosts"}  # the engine's own
    overlays = {row[4] for row in rows if row[row.index("-") + 1] == "overlay"}
    assert overlays == {"/", str(lab.ws), f"{lab.ws}/devkit.config.json"}
    assert lab.cell.attrs["Mounts"] == []
    binds = {one["Source"] for one in lab.keeper.attrs["Mounts"] if one["Type"] == "bind"}
    doors = {one for one in binds if one.startswith(f"{lab.dirs.runtime}/cells/")}
    assert {Path(one).name for one in doors} == {lab.cell.labels[LABEL_CELL]}  # the keeper's own
    assert binds - doors == {str(lab.ws)}


def test_no_socket_of_an_engine_is_there(lab: Lab) -> None:
    found = lab.sh(
        "find / -xdev -type s 2>/dev/null; ls /run; echo END; python3 -c 'import socket;"
        's=socket.socket(socket.AF_UNIX);s.bind("/tmp/s")\'; find /tmp -type s'
    )
    assert found.stdout == "lock\nEND\n/tmp/s\n"


@pytest.mark.parametrize("owner", OWNERS)
def test_between_calls_the_cell_sees_nothing_of_the_workspace(lab: Lab) -> None:
    assert "README.md" in lab.sh("ls; echo x > new").stdout
    # Standard error and output come over streams of their own, in any order.
    look = f"(find {lab.ws} | wc -l; cat {lab.ws}/README.md; touch {lab.ws}/x; echo END) 2>&1"
    between = lab.look(look)
    assert between.splitlines()[0] == "1"
    assert "No such file" in between
    assert "Read-only file system" in between
    lab.read("ls")
    # A reading view is closed without being waited for.
    wait_for(lambda: lab.look(look) == between, "the view is closed")
    assert lab.text("README.md").startswith("Hello")


def test_a_process_that_stays_keeps_no_hold_of_the_workspace(lab: Lab) -> None:
    lab.sh("(setsid sleep 60 < README.md &) ; exec 3< README.md; sleep 0")
    look = f"ls -l /proc/[0-9]*/fd /proc/[0-9]*/cwd 2>/dev/null | grep -c '{lab.ws}'"
    assert lab.look(look, user="0").strip() == "0"


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Path]:
    """Return another repository."""
    folder = tmp_path / "other"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "theirs.txt").write_text("theirs\n")
    yield folder


def test_a_call_sees_only_the_workspaces_that_it_names(
    make_lab: MakeLab, tmp_path: Path, other: Path
) -> None:
    lab = make_lab(repository(tmp_path / "mine", ME), other)
    look = f"cat {other}/theirs.txt"
    assert lab.read(look).exit_status == 1
    assert lab.read(look, also=(str(other),)).stdout == "theirs\n"
    assert lab.read(look).exit_status == 1
    places = {frozenset(cell["workspaces"]) for cell in lab.supervisor.cells()}
    assert places == {frozenset({str(lab.ws)}), frozenset({str(lab.ws), str(other)})}
