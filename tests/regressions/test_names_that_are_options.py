# SPDX-License-Identifier: Apache-2.0
"""A call left files named like options, which `tar cf x.tar *` of a person's then obeyed.

So it did with commands (`vim *` obeys `+!sh x`) and patterns (`git rm *` obeys `:!src`).
"""

from __future__ import annotations

import pytest

from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind, Outcome, Verdict
from policy.protected.paths import PathPolicy
from tests.container.lab import Lab
from tests.policy.asking import bash

PATHS = PathPolicy.default()
ODD = [
    "--checkpoint=1",
    "-e sh x.sh",
    "src/-rf",
    "-d/a.txt",
    "a\nb",
    "src/\x1b[2Jx",
    "a\x7fb",
    "a\u0085b",
    "node_modules/a\nb",
    "-x/node_modules/a",
    "+!touch x",
    "src/+q!",
    "+so.ts",
    "+source.svelte",
    "+page",
    "+page.svelte.sh -",
    ":(top)",
    "a/:!src",
    ":/",
    "@x.c",
    "src/@Evil.java",
    "~",
    "~root",
    " -rf",
    "a\u202egnp.exe",
    "node_modules/a\u200bb",
    "\ufeffa",
    "touch PWNED|",
    "src/|touch x",
    ">x",
    "src/<x",
    "&1",
    "src/$(touch x).py",
    "src/${IFS}.py",
    "src/`id`.py",
    "src/b;touch x;.py",
    "a|b",
    "x&touch y",
    "a&&b",
]
USUAL = [
    "a-b.txt",
    "src/a--b.py",
    "node_modules/a/-.js",
    "lib/site-packages/-x.dist-info/METADATA",
    "größe und mehr.txt",
    "docs/日本.md",
    "+page.svelte",
    "src/routes/+page@(app).svelte",
    "+layout.server.ts",
    "pages/+Page.tsx",
    "+onRenderClient.ts",
    "app/@modal/page.tsx",
    "src/@types/x.d.ts",
    "@fontsource.css",
    "node_modules/+x/+y",
    "~$report.docx",
    "a\u200db.txt",
    "1:1.md",
    "_x/(group)/[id].tsx",
    "a b/c.txt",
    "routes/$id.tsx",
    "routes/$.tsx",
    "Q&A.md",
    "docs/R&D notes.md",
    "Terms & conditions.md",
    "terms & conditions/a.md",
    "app/routes/+types/home.ts",
    "app/+not-found.tsx",
    "app/+html.tsx",
    "app/+native-intent.tsx",
    "+client.ts",
    "+middleware.ts",
    "{{cookiecutter.name}}/x.py",
    "node_modules/x/a;b.js",
    "a=b,c@d%e!f#g^h.txt",
    "it's (1) [2] {3}.txt",
]


def _outcome(change: Change) -> Outcome:
    return judge(bash("python3 x.py"), [change], PATHS, workspace="/w").outcome


@pytest.mark.parametrize("kind", [FileType.FILE, FileType.DIRECTORY, FileType.SYMLINK])
@pytest.mark.parametrize("path", ODD)
def test_new_ones_are_held(path: str, kind: FileType) -> None:
    target = "x" if kind is FileType.SYMLINK else None
    assert _outcome(Change(path, Kind.CREATED, kind, target=target)) is Outcome.HOLD


@pytest.mark.parametrize("path", USUAL)
def test_usual_names_land(path: str) -> None:
    assert _outcome(Change(path, Kind.CREATED, FileType.FILE)) is Outcome.LAND
    decision = bash("mv a.txt b")
    moved = Change(path, Kind.RENAMED, FileType.FILE, source="a.txt")
    assert judge(decision, [moved], PATHS, workspace="/w").outcome is Outcome.LAND


def test_what_is_there_may_change_and_be_made_plain() -> None:
    assert _outcome(Change("-x", Kind.MODIFIED, FileType.FILE)) is Outcome.LAND
    decision = bash("mv ./-x x; mv a ./-x")
    plain = Change("x", Kind.RENAMED, FileType.FILE, source="-x")
    odd = Change("-x", Kind.RENAMED, FileType.FILE, source="a")
    assert judge(decision, [plain], PATHS, workspace="/w").outcome is Outcome.LAND
    assert judge(decision, [odd], PATHS, workspace="/w").outcome is Outcome.HOLD


@pytest.mark.parametrize(
    "command",
    [
        *("touch ./-rf", "echo 1 > ./--x", "mkdir -- -d", "cp a ./-b"),
        *("touch '+!sh x'", "echo 1 > ':!src'", "cp a @x.c", "mkdir ' -rf'"),
    ],
)
def test_named_ones_are_asked_about(command: str) -> None:
    found = bash(command)
    assert found.verdict is Verdict.ASK
    assert any(
        "odd-name" in (one.layer, one.rule) or "option" in one.reason for one in found.layers
    )


@pytest.mark.parametrize("command", ["touch ./a-rf", "echo 1 > x-", "mkdir -p d-e", "cat ./-x"])
def test_others_are_not(command: str) -> None:
    assert bash(command).verdict is not Verdict.ASK


def test_in_a_cell(lab: Lab) -> None:
    script = "open('{}', 'w').write('x')"
    held = lab.sh(f'python3 -c "{script.format("--checkpoint=1")}"')
    assert (held.judgement, held.landed) == ("hold", False)
    assert "for an option" in held.message
    assert lab.sh(f'python3 -c "{script.format("checkpoint=1")}"').landed
