# SPDX-License-Identifier: Apache-2.0
"""P3: a protected file ends with its old content, whatever sequence of calls was made.

Each trick is run twice: against an ordinary file, where it must work (the control), and against
the protected one.
"""

from __future__ import annotations

import pytest

from tests.container.lab import OWNERS, Lab, give, snapshot


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """Return the lab of all tests here that need nothing special."""
    return shared_lab


CONFIG, WAIVER = "devkit.config.json", ".devkit-waiver.yml"
ORDINARY = "ordinary.json"
OLD = '{"strict": true}\n'


def _later(text: str) -> str:
    return (
        f"rm -f /tmp/done; (setsid sh -c 'echo {text} > {{f}}; : > /tmp/done' &); "
        "until [ -e /tmp/done ]; do sleep 0.02; done"
    )


# {f} is the file; each leaves "changed" in it where nothing protects it.
TRICKS = {
    "a direct write": ["echo changed > {f}"],
    "an append after a truncation": [": > {f}; echo changed >> {f}"],
    "a write to another name that is moved over": ["echo changed > t && mv -f t {f}"],
    "a copy over": ["echo changed > t && cp -f t {f}"],
    "a move in a later call": ["echo changed > t", "mv -f t {f}"],
    "a removal and a new file": ["rm -f {f}; echo changed > {f}"],
    "a removal first and a new file later": ["rm -f {f}", "echo changed > {f}"],
    "a symbolic link over it": ["echo changed > t && ln -sfn t {f}"],
    "a write through a symbolic link": ["ln -s {f} l && echo changed > l"],
    "a symbolic link now and a write later": ["ln -s {f} l", "echo changed > l"],
    "a write through a hard link": ["ln {f} h && echo changed > h"],
    "a hard link now and a write later": ["ln {f} h", "echo changed > h"],
    "a hard link over it": ["echo changed > t && ln -f t {f}"],
    "a stream editor in place": ["sed -i s/.*/changed/ {f}"],
    "python's replace": [
        'python3 -c \'import os; open("t","w").write("changed\\n"); os.replace("t","{f}")\''
    ],
    "a file opened for update": [
        'python3 -c \'f = open("{f}","r+"); f.truncate(0); f.write("changed\\n")\''
    ],
    "an exchange of names": [
        "echo changed > t && python3 -c 'import ctypes; "
        'ctypes.CDLL(None).renameat2(-100, b"t", -100, b"{f}", 2)\''
    ],
    "a mapping of the file": [
        'python3 -c \'import mmap; f = open("{f}","r+b"); m = mmap.mmap(f.fileno(), 0); '
        'm[:8] = b"changed\\n"; m.flush(); m.close(); f.truncate(8)\''
    ],
    "an old version from git": ["git checkout -q HEAD~1 -- {f}"],
    "git stash of what was staged": [
        "git rm -q --cached {f}; echo changed > t; mv -f t {f}; git add -f {f}"
    ],
    "git apply": [
        "printf -- '--- a/{f}\\n+++ b/{f}\\n@@ -1 +1 @@\\n-{{\"strict\": true}}\\n+changed\\n' "
        "| git apply"
    ],
    "a renamed folder that is changed and renamed back": [
        "mkdir -p deep && cp {f} deep/ && mv deep d2 && echo changed > d2/{f} && cp d2/{f} {f}"
    ],
    "a background process": ["(sleep 0.1; echo changed > {f}) & wait"],
    "a process that outlives the call": [_later("changed")],
    "an archive": ["mkdir a && echo changed > a/{f} && tar -C a -cf - {f} | tar -xf -"],
    "the workspace under another path": ["echo changed > /proc/self/cwd/{f}"],
    "dd": ["echo changed | dd of={f} status=none"],
    "tee in a pipe": ["echo changed | tee {f} > /dev/null"],
    "a here-document of another shell": ["sh <<'E'\necho changed > {f}\nE"],
    "a make rule": ["printf 'all:\\n\\techo changed > {f}\\n' > Makefile && make -s"],
    "a compiled program": [
        'printf \'#include <stdio.h>\\nint main(){{FILE*f=fopen("{f}","w");'
        'fputs("changed\\\\n",f);return 0;}}\' > x.c && gcc -o x x.c && ./x'
    ],
}


LANDS_AS_A_COPY = ("a hard link now and a write later",)
"""A new name of a file that stood there before becomes a file of its own, so this never works."""


def attempt(lab: Lab, steps: list[str], name: str) -> str | None:
    """Run the steps of a trick, each as a call of its own; return the last one's judgement."""
    done = None
    for step in steps:
        command = step.replace("{f}", name).replace("{{", "{").replace("}}", "}")
        done = lab.sh(command, derived_from="deletes").judgement
    return done


def afresh(lab: Lab) -> None:
    """Put the real workspace back to its last commit."""
    lab.git("reset", "-q", "--hard", "second")
    lab.git("clean", "-fdq", "-e", ".env", "-e", ".lockgate")
    give(lab.ws, lab.ws.stat().st_uid)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_protected_file_keeps_its_content(lab: Lab) -> None:
    (lab.ws / ORDINARY).write_text('{"strict": false}\n')
    lab.git("add", ORDINARY)
    lab.git("commit", "-qm", "first")
    (lab.ws / ORDINARY).write_text(OLD)
    lab.git("commit", "-qam", "second")
    lab.git("tag", "second")
    found = {}
    for trick, steps in TRICKS.items():
        afresh(lab)
        attempt(lab, steps, CONFIG)
        file = lab.ws / CONFIG
        kept = file.read_text() == OLD and not file.is_symlink() and file.stat().st_nlink == 1
        afresh(lab)
        attempt(lab, steps, ORDINARY)
        found[trick] = (kept, (lab.ws / ORDINARY).read_text() != OLD)
    works = {trick: (True, trick not in LANDS_AS_A_COPY) for trick in TRICKS}
    assert found == works


CREATIONS = {
    "a direct write": ["echo x > {f}"],
    "a move": ["echo x > t && mv t {f}"],
    "a move in a later call": ["echo x > t", "mv t {f}"],
    "a hard link": ["echo x > t && ln t {f}"],
    "a symbolic link": ["echo x > t && ln -s t {f}"],
    "a folder": ["mkdir {f}"],
    "a copy": ["cp README.md {f}"],
    "a folder that is renamed with it": ["mkdir d && echo x > d/{f} && mv d e"],
    "a process that outlives the call": [_later("x")],
    "an archive": ["mkdir a && echo x > a/{f} && tar -C a -cf - {f} | tar -xf -"],
    "a FIFO": ["mkfifo {f}"],
}
SPELLINGS = (WAIVER, ".DevKit-Waiver.YML", f"{WAIVER}.", f"{WAIVER} ", "src/deep/.devkit-waiver.x")


def found(lab: Lab) -> list[str]:
    """Return what bears the protected name anywhere in the real workspace."""
    return [str(one) for one in lab.ws.rglob("*") if "devkit-waiver" in one.name.casefold()]


def test_a_protected_file_that_is_absent_stays_absent(lab: Lab) -> None:
    lab.git("tag", "second")
    seen = {}
    for trick, steps in CREATIONS.items():
        afresh(lab)
        attempt(lab, steps, WAIVER)
        absent = found(lab) == []
        afresh(lab)
        seen[trick] = (absent, attempt(lab, steps, "harmless.yml"))
    assert seen == dict.fromkeys(CREATIONS, (True, "land"))


def test_no_spelling_of_a_protected_name_lands(lab: Lab) -> None:
    for name in SPELLINGS:
        made = lab.sh(f"mkdir -p src/deep; echo x > '{name}'; echo y > beside.txt; cat '{name}'")
        assert (made.judgement, made.landed) == ("discard", False)
        assert made.stdout in ("", "x\n")  # it is ended as soon as somebody sees it
        assert found(lab) == []
        assert not (lab.ws / "beside.txt").exists()  # the whole transaction goes
        assert "gh pr create" in made.message


@pytest.mark.parametrize("owner", OWNERS)
def test_a_direct_write_fails_at_once_and_the_call_goes_on(lab: Lab) -> None:
    done = lab.sh(f"echo x > {CONFIG}; echo y > beside.txt; cat {CONFIG}")
    assert done.stdout == OLD
    assert "Read-only file system" in done.stderr
    assert (done.judgement, [one.path for one in done.changes]) == ("land", ["beside.txt"])


ANCESTORS = {
    "a folder that holds one is renamed": "mv sub other",
    "a folder that holds one is removed": "rm -rf sub",
    "a folder that holds one is replaced by a link": "mv sub away; ln -s away sub",
    "a folder far above is renamed": "mv top other",
}


@pytest.mark.parametrize("command", ANCESTORS.values(), ids=ANCESTORS)
def test_a_protected_file_stays_where_it_is(lab: Lab, command: str) -> None:
    for folder in ("sub", "top/of/tree"):
        (lab.ws / folder).mkdir(parents=True)
        (lab.ws / folder / CONFIG).write_text(OLD)
    lab.sh(command, derived_from="deletes")
    assert [(lab.ws / f / CONFIG).read_text() for f in ("sub", "top/of/tree")] == [OLD, OLD]
    assert not (lab.ws / "sub").is_symlink()
    for folder in ("plain", "plains/of/tree"):
        (lab.ws / folder).mkdir(parents=True)
        (lab.ws / folder / "file").write_text("x")
    control = lab.sh(
        command.replace("sub", "plain").replace("top", "plains"), derived_from="deletes"
    )
    assert control.landed


def test_a_protected_file_that_appears_is_pinned_in_the_next_call(lab: Lab) -> None:
    """A person adds one on the host: the call after a landing that the policy names sees it."""
    (lab.ws / "late").mkdir()
    lab.sh("true")
    (lab.ws / "late" / CONFIG).write_text(OLD)
    changed = lab.sh(f"echo x > late/{CONFIG}")
    assert (changed.judgement, changed.landed) in (("discard", False), ("land", False))
    assert (lab.ws / "late" / CONFIG).read_text() == OLD


OBEYED = {
    "a hook of git": "echo x > .git/hooks/post-checkout",
    "a hook that exists": "echo x >> .git/hooks/pre-commit",
    "a hook's mode": "chmod -x .git/hooks/pre-commit",
    "a hook that is moved in": "echo x > t && mv t .git/hooks/post-merge",
    "the folder of the hooks": "mv .git/hooks .git/old && mkdir .git/hooks",
    "a setting that runs a program": "git config core.fsmonitor ./evil",
    "another place of the hooks": "git config core.hooksPath hooks",
    "an alias": "git config alias.st '!evil'",
    "the shell's folder settings": "echo x > .envrc",
    "an editor's tasks": "mkdir .vscode && echo '{}' > .vscode/tasks.json",
    "an agent's settings": "mkdir .claude && echo '{}' > .claude/settings.json",
    "a workflow": "mkdir -p .github/workflows && echo x > .github/workflows/ci.yml",
}


def test_what_the_host_obeys_is_held(lab: Lab) -> None:
    before = snapshot(lab.ws)
    seen = {}
    for what, command in OBEYED.items():
        done = lab.sh(command)
        seen[what] = (done.exit_status, done.judgement, done.landed)
        assert snapshot(lab.ws) == before
    assert seen == dict.fromkeys(OBEYED, (0, "hold", False))
    plain = lab.sh("git branch side && echo x > .envrc.example")
    assert plain.landed, plain.message  # the control: what lies beside them lands
