# SPDX-License-Identifier: Apache-2.0
"""Files behave in a cell as outside, and what lands is exactly what the call left."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.container.conftest import MakeLab
from tests.container.lab import OWNERS, Lab, give, repository, snapshot


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


@pytest.mark.parametrize("owner", OWNERS)
def test_git_status_is_clean_in_the_cell_and_outside(lab: Lab) -> None:
    lab.git("status", "--short")  # outside, so that the index is fresh
    give(lab.ws, lab.ws.stat().st_uid)
    assert lab.read("git status --short").stdout == ""
    done = lab.sh("git status --short; git diff --stat; git rev-parse --short HEAD")
    assert done.stdout == lab.git("rev-parse", "--short", "HEAD")
    assert done.changes == ()  # nothing had to be hashed again: the index stays as it is
    assert lab.git("status", "--short") == ""


@pytest.mark.parametrize("owner", OWNERS)
def test_git_status_outside_right_after_a_landing_shows_just_the_change(lab: Lab) -> None:
    assert lab.sh(
        "echo more >> README.md; echo new > new.txt; mv src/deep src/far; git add src",
        derived_from="deletes",
    ).landed
    assert lab.git("status", "--short") == (
        " M README.md\nR  src/deep/er/leaf.txt -> src/far/er/leaf.txt\n?? new.txt\n"
    )
    assert lab.sh("git status --short").stdout == lab.git("status", "--short")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_commit_made_in_a_cell_is_whole_outside(lab: Lab) -> None:
    done = lab.sh(
        "git switch -q -c topic && echo more >> README.md && git add -A && "
        "git -c user.name=A -c user.email=a@example.invalid commit -q -m 'from a cell' && "
        "git log --oneline | wc -l"
    )
    assert (done.exit_status, done.stdout, done.judgement) == (0, "3\n", "land")
    assert lab.git("log", "--format=%s", "-1", "topic") == "from a cell\n"
    assert lab.git("branch", "--show-current") == "topic\n"
    assert lab.git("status", "--short") == ""
    lab.git("fsck", "--strict", "--no-dangling")
    packed = lab.sh(
        "git gc -q && git merge-base main topic && git stash list && git branch -d -q "
        "main; git fsck"
    )
    assert packed.landed
    lab.git("fsck", "--strict", "--no-dangling")


def described(path: Path) -> tuple[Any, ...]:
    """Return what a landing must keep of one path."""
    info = path.lstat()
    what = (
        os.fsencode(path.readlink())
        if path.is_symlink()
        else (path.read_bytes() if path.is_file() else b"")
    )
    return stat.S_IFMT(info.st_mode), info.st_mode & 0o7777, info.st_uid, info.st_mtime, what


@pytest.mark.parametrize("owner", OWNERS)
def test_type_mode_owner_time_and_content_land(lab: Lab) -> None:
    owner = lab.ws.stat().st_uid
    done = lab.sh(
        "mkdir -m 750 d; printf a > d/plain; chmod 640 d/plain; touch -d @1000000000.5 d/plain;"
        "printf b > run; chmod 755 run; touch -d @1100000000 run; ln -s plain d/link;"
        "ln -s /nonexistent-in-workspace/../x d/gone 2>/dev/null; rm d/gone;"
        "printf c > none; chmod 000 none; printf new > README.md; chmod 600 tool.sh;"
        "mkdir -p deep/er; touch -d @1200000000 deep/er deep; touch -d @1300000000 d;"
        "umask 077; printf e > private; mkdir closed"
    )
    assert (done.exit_status, done.judgement) == (0, "land")
    found = {
        str(p.relative_to(lab.ws)): described(p)
        for p in (
            lab.ws / name
            for name in ("d", "d/plain", "run", "none", "deep", "deep/er", "private", "closed")
        )
    }
    file, folder = stat.S_IFREG, stat.S_IFDIR
    times = {name: value[3] for name, value in found.items()}
    assert times["d/plain"] == 1_000_000_000.5
    assert (times["run"], times["deep"], times["deep/er"], times["d"]) == (
        1_100_000_000,
        1_200_000_000,
        1_200_000_000,
        1_300_000_000,
    )
    assert {name: (*value[:3], value[4]) for name, value in found.items()} == {
        "d": (folder, 0o750, owner, b""),
        "d/plain": (file, 0o640, owner, b"a"),
        "run": (file, 0o755, owner, b"b"),
        "none": (file, 0o000, owner, b"c"),
        "deep": (folder, 0o755, owner, b""),
        "deep/er": (folder, 0o755, owner, b""),
        "private": (file, 0o600, owner, b"e"),
        "closed": (folder, 0o700, owner, b""),
    }
    assert (lab.ws / "d" / "link").readlink() == Path("plain")
    assert lab.text("README.md") == "new"
    assert (lab.ws / "tool.sh").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("owner", OWNERS)
def test_folders_are_renamed_whole(lab: Lab) -> None:
    steps = (
        "mv src source",
        "mkdir nest && mv source nest/inner",
        "mv nest/inner/deep . && echo x > deep/er/new.txt",
        "mv deep nest/deep && mv nest nest2 && mkdir nest && echo y > nest/other",
        "mv nest2/deep/er/leaf.txt nest/ && rmdir nest2/inner/none 2>/dev/null; true",
    )
    for step in steps:
        assert lab.sh(step, derived_from="deletes").landed, step
    names = sorted(n for n in snapshot(lab.ws) if n.startswith(("nest", "src", "deep", "source")))
    assert names == [
        "nest",
        "nest/leaf.txt",
        "nest/other",
        "nest2",
        "nest2/deep",
        "nest2/deep/er",
        "nest2/deep/er/new.txt",
        "nest2/inner",
        "nest2/inner/app.py",
    ]
    assert lab.text("nest/leaf.txt") == "leaf\n"
    assert lab.text("nest2/inner/app.py") == "print('one')\n"


def test_names_that_are_exchanged_stay_exchanged(lab: Lab) -> None:
    done = lab.sh(
        "mv README.md t && mv tool.sh README.md && mv t tool.sh; mv src a && mkdir src "
        "&& mv a/app.py src/ && mv a src/a",
        derived_from="deletes",
    )
    assert done.landed
    assert lab.text("README.md").startswith("#!/bin/sh")
    assert lab.text("tool.sh").startswith("Hello")
    assert (lab.text("src/app.py"), lab.text("src/a/deep/er/leaf.txt")) == (
        "print('one')\n",
        "leaf\n",
    )


def test_a_file_that_becomes_a_folder_and_a_folder_that_becomes_a_file(lab: Lab) -> None:
    done = lab.sh(
        "rm README.md && mkdir README.md && echo x > README.md/in; rm -r src && "
        "echo y > src; rm tool.sh && ln -s src tool.sh",
        derived_from="deletes",
    )
    assert done.landed
    assert (lab.text("README.md/in"), lab.text("src")) == ("x\n", "y\n")
    assert (lab.ws / "tool.sh").readlink() == Path("src")


def test_hard_links_made_in_one_call_are_one_file(lab: Lab) -> None:
    assert lab.sh(
        "echo x > one; ln one two; mkdir d; ln one d/three; ls -i one | cut -d' ' -f1 > /dev/null"
    ).landed
    inodes = {(lab.ws / name).stat().st_ino for name in ("one", "two", "d/three")}
    contents = {lab.text(name) for name in ("one", "two", "d/three")}
    assert contents == {"x\n"}
    assert len(inodes) in (1, 3)  # copies are allowed, half of them is not


def test_hard_links_outside_stay_when_their_file_is_changed(lab: Lab, tmp_path: Path) -> None:
    """A pnpm-like store: what lies outside the workspace must not change through a link."""
    store = tmp_path / "store.txt"
    store.write_text("store\n")
    os.link(store, lab.ws / "linked.txt")
    assert lab.sh("echo changed > linked.txt").landed
    assert (store.read_text(), lab.text("linked.txt")) == ("store\n", "changed\n")


NAMES = (
    "sp ace",
    "quo'te",
    'dou"ble',
    "new\nline",
    "tab\t",
    "-dash",
    "*",
    "$(x)",
    "back\\slash",
    "trailing ",
    "ünï",
    "e\u0301",
    "\U0001f600",
    "%s",
    "~",
    "semi;colon",
    "x" * 255,
)


@pytest.mark.parametrize("owner", OWNERS)
def test_any_name_lands_and_is_undone(lab: Lab, owner: int) -> None:
    raw = [*(name.encode() for name in NAMES), b"\xff\xfe", b"caf\xe9"]
    before = snapshot(lab.ws)
    program = (
        "import os, sys\n"
        "for name in sys.stdin.buffer.read().split(b'\\0'):\n"
        "    open(name, 'w').write('x\\n')\n"
        "    len(name) < 255 and os.mkdir(b'd' + name)\n"
    )
    held = lab.sh(f'python3 -c "{program}"', stdin=b"\0".join(raw))
    odd = {change.path for change in held.changes if change.outcome == "hold"}
    run = {"$(x)", "d$(x)", "semi;colon", "dsemi;colon"}  # by scripts that hold names
    assert odd == {"new\nline", "dnew\nline", "tab\t", "dtab\t", "-dash", "~", *run}
    made = lab.run(lab.supervisor.land(held.id))
    assert made.landed
    found = {os.fsencode(path.name) for path in lab.ws.iterdir()}
    assert found >= set(raw) | {b"d" + name for name in raw if len(name) < 255}
    assert all((lab.ws / os.fsdecode(name)).read_bytes() == b"x\n" for name in raw)
    assert {(lab.ws / os.fsdecode(name)).stat().st_uid for name in raw} == {owner}
    assert "caf\\xe9" in {change.path for change in made.changes}
    lab.run(lab.supervisor.undo(made.id))
    assert snapshot(lab.ws) == before


def test_content_that_is_the_same_is_no_change(lab: Lab) -> None:
    before = snapshot(lab.ws)
    done = lab.sh(
        "cp README.md t && cat t > README.md && rm t; touch new && rm new; "
        "mv src a && mv a src; touch -r tool.sh README.md; chmod 700 tool.sh; "
        "chmod 755 tool.sh; touch -r .gitignore -d @$(stat -c %Y README.md) README.md"
    )
    assert all(change.kind in ("meta", "modified") for change in done.changes)
    after = snapshot(lab.ws)
    assert {name: value[-1] for name, value in after.items()} == {
        name: value[-1] for name, value in before.items()
    } or set(after) == set(before)


def test_a_sparse_file_of_200_megabytes_lands_sparse(lab: Lab) -> None:
    done = lab.sh(
        "truncate -s 200M big; printf end >> big; printf start | dd of=big conv=notrunc "
        "status=none; sha256sum big | cut -c1-64"
    )
    assert done.landed
    info = (lab.ws / "big").stat()
    assert info.st_size == 200 * 1024**2 + 3
    assert info.st_blocks * 512 < 10 * 1024**2
    assert lab.read("sha256sum big | cut -c1-64").stdout == done.stdout


def test_thousands_of_small_files_land_in_one_call(lab: Lab) -> None:
    program = (
        "import os\n"
        "for d in range(40):\n"
        "    os.makedirs(f'build/node_modules/p{d}/lib')\n"
        "    for f in range(100):\n"
        "        open(f'build/node_modules/p{d}/lib/f{f}.js', 'w').write(f'{d} {f}')\n"
    )
    done = lab.sh(f'python3 -c "{program}" && find build -type f | wc -l', timeout=100_000)
    assert (done.stdout, done.judgement, done.landed) == ("4000\n", "land", True)
    found = list((lab.ws / "build").rglob("*.js"))
    assert len(found) == 4_000
    assert lab.text("build/node_modules/p39/lib/f99.js") == "39 99"
    lab.run(lab.supervisor.undo(done.id))
    assert not (lab.ws / "build").exists()


@pytest.mark.parametrize("owner", OWNERS)
def test_a_build_with_make_lands_and_is_up_to_date_afterwards(lab: Lab) -> None:
    (lab.ws / "Makefile").write_text("main: main.o\n\tgcc -o $@ $<\n%.o: %.c\n\tgcc -c -o $@ $<\n")
    (lab.ws / "main.c").write_text('#include <stdio.h>\nint main(void){puts("built");return 0;}\n')
    give(lab.ws, lab.ws.stat().st_uid)
    done = lab.sh("make -s && ./main")
    assert (done.stdout, done.stderr, done.landed) == ("built\n", "", True)
    assert (lab.ws / "main").stat().st_mode & 0o111
    assert lab.sh("make -q && make").stdout == "make: 'main' is up to date.\n"
    touched = lab.sh("echo >> main.c; make -s; ./main")
    assert (touched.stdout, touched.landed) == ("built\n", True)


def test_python_node_and_git_work_as_agents_use_them(lab: Lab) -> None:
    done = lab.sh(
        "python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'; "
        "node -e 'console.log(2)'; echo '{\"a\": 3}' | jq .a; rg -c Hello README.md; "
        "printf 'a\\nb\\n' > f; printf -- '--- f\\n+++ f\\n@@ -1,2 +1,2 @@\\n a\\n-b\\n+c\\n' "
        "| patch -s; tail -1 f; git diff --no-index --stat f README.md | tail -1 | cut -c1-8"
    )
    assert done.stdout == "1\n2\n3\n1\nc\n 1 file \n"
    assert done.landed
    assert lab.sh(".venv/bin/python -c 'print(4)'").stdout == "4\n"


def test_locks_and_sqlite_work_in_the_workspace(lab: Lab) -> None:
    done = lab.sh(
        'flock lock echo locked; python3 -c \'import sqlite3; c = sqlite3.connect("db"); '
        'c.execute("create table t (x)"); c.execute("insert into t values (7)"); c.commit(); '
        'print(*c.execute("select x from t"))\''
    )
    assert (done.stdout, done.landed) == ("locked\n(7,)\n", True)
    assert (
        lab.read(
            'python3 -c \'import sqlite3; print(*sqlite3.connect("file:db?mode=ro", '
            'uri=True).execute("select x from t"))\''
        ).stdout
        == "(7,)\n"
    )


def test_an_executable_that_runs_can_be_replaced(lab: Lab) -> None:
    done = lab.sh("cp /bin/sleep prog; ./prog 5 & cp /bin/true t; mv t prog; ./prog; echo $?")
    assert (done.stdout, done.landed) == ("0\n", True)


def test_extended_attributes_survive_a_change(lab: Lab) -> None:
    os.setxattr(lab.ws / "README.md", "user.note", b"kept")
    done = lab.sh(
        'python3 -c \'import os; os.setxattr("tool.sh", "user.mine", b"new")\'; '
        "echo more >> README.md"
    )
    assert done.landed
    assert os.getxattr(lab.ws / "README.md", "user.note") == b"kept"
    assert os.getxattr(lab.ws / "tool.sh", "user.mine") == b"new"


@pytest.mark.parametrize("owner", OWNERS)
def test_files_of_other_users_are_seen_as_theirs(
    make_lab: MakeLab, tmp_path: Path, owner: int
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    folder = repository(tmp_path / "shared", owner)
    (folder / "theirs").write_text("theirs\n")
    os.chown(folder / "theirs", 4321, 4321)
    (folder / "theirs").chmod(0o600)
    (folder / "public").write_text("public\n")
    os.chown(folder / "public", 4321, 4321)
    lab = make_lab(folder)
    done = lab.sh("cat theirs; cat public; echo x >> public; stat -c %u public")
    assert done.stdout == "public\n4321\n"
    assert done.stderr.count("Permission denied") == 2
    replaced = lab.sh("cp public p && mv -f p public")
    assert (replaced.landed, (folder / "public").stat().st_uid) == (True, owner)


def test_a_call_that_only_sets_a_time_lands_it(lab: Lab) -> None:
    before = (lab.ws / "README.md").read_text()
    done = lab.sh("touch -d @1000000000 README.md")
    assert (done.exit_status, done.landed, done.changes) == (0, False, ())
    assert (lab.ws / "README.md").stat().st_mtime == 1_000_000_000
    assert (lab.ws / "README.md").read_text() == before
