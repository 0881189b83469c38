# SPDX-License-Identifier: Apache-2.0
"""Routes to a protected file in several calls: it ends as it was, and what is harmless lands."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.container.lab import ME, Lab, repository, snapshot

F, N = "devkit.config.json", "n=devkit"
PY = "python3 -c"
ROUTES: dict[str, tuple[str, ...]] = {
    "moved away, changed and moved back": (f"{N}; mv $n.config.json t", "echo x >t", f"mv t {F}"),
    "a copy is changed and moved over it": (
        f"cp {F} t",
        "echo x >t",
        f"{N}; mv -f t $n.config.json",
    ),
    "a copy is linked over it": (f"cp {F} t; echo x >t", f"{N}; ln -f t $n.config.json"),
    "a link takes its place": ("echo x >t", f"{N}; ln -sfn t $n.config.json"),
    "a link in a new folder leads there": (
        "mkdir d; ln -s .. d/up",
        f"{N}; echo x >d/up/$n.config.json",
    ),
    "an absolute link leads there": ("ln -s $PWD here", f"{N}; echo x >here/$n.config.json"),
    "it is removed and made anew": (f"{N}; rm -f $n.config.json", f"{N}; echo x >$n.config.json"),
    "a folder takes its place": (f"{N}; rm -f $n.config.json", f"{N}; mkdir $n.config.json"),
    "it is unlinked by a program": (f'{PY} \'import os; os.unlink("dev"+"kit.config.json")\'',),
    "it is replaced by a program": (
        "echo x >t",
        f'{PY} \'import os; os.replace("t", "dev"+"kit.config.json")\'',
    ),
    "it is truncated by a program": (
        f'{PY} \'import os; os.truncate("dev"+"kit.config.json", 0)\'',
    ),
    "it is exchanged": (
        "echo x >t",
        f"{N}; mv --exchange t $n.config.json 2>/dev/null || mv t $n.config.json",
    ),
    "a glob writes it": ("echo x >t", "for f in dev*.json; do cp t $f; done"),
    "find writes it": ("echo x >t", "find . -name 'dev*.json' -exec cp t {} ';'"),
    "xargs writes it": ("echo x >t", "ls | grep ^dev | xargs -n1 cp t"),
    "tar unpacks it": (f"mkdir p; echo x >p/{F}; tar -C p -cf t.tar {F}", "tar -xf t.tar"),
    "tar unpacks it over": (
        f"mkdir p; echo x >p/{F}; tar -C p -cf t.tar .",
        "tar --overwrite -xf t.tar",
    ),
    "git checks an old one out": ("git checkout -q HEAD~1 -- dev*.json",),
    "git resets to an old one": ("git reset -q --hard HEAD~1",),
    "git restores an old one": ("git restore -s HEAD~1 .",),
    "git stashes and pops it": (
        f"{N}; echo x >t; cp t $n.config.json; git stash -q; git stash pop -q",
    ),
    "git moves it": (f"{N}; git mv $n.config.json t",),
    "git removes it": (f"{N}; git rm -qf $n.config.json",),
    "git applies a patch": (
        f"printf -- '--- a/{F}\\n+++ b/{F}\\n@@ -1 +1 @@\\n-{{\"strict\": true}}\\n+x\\n' >p",
        "git apply p",
    ),
    "git checks a branch out": (
        "git checkout -q -b side HEAD~1; echo s >s; git add s; git commit -qm s",
        "git checkout -q main",
        "git checkout -q side",
    ),
    "sed edits it": ("sed -i s/true/false/ dev*.json",),
    "perl edits it": ("perl -pi -e s/true/false/ dev*.json",),
    "dd writes it": ("echo x >t", f"{N}; dd if=t of=$n.config.json conv=notrunc status=none"),
    "install writes it": ("echo x >t", f"{N}; install -m 777 t $n.config.json"),
    "rsync or cp -r brings it": (f"mkdir -p q; echo x >q/{F}", "cp -rf q/. ."),
    "it gets another mode": (f"{N}; chmod 777 $n.config.json",),
    "it is written through a descriptor": (f"{N}; exec 3<>$n.config.json && echo x >&3",),
    "it is moved with a new folder": ("mkdir box", f"{N}; mv $n.config.json box/", "mv box crate"),
    "a background process writes it": (f"{N}; (sleep 0.2; echo x >$n.config.json) & wait",),
    "another letter case": (
        "echo x >DEVKIT.CONFIG.JSON; mv DEVKIT.CONFIG.JSON t",
        f"{N}; cp t $n.config.json",
    ),
}
"""Each ends with a changed or missing file where nothing protects it."""


@pytest.mark.parametrize("steps", ROUTES.values(), ids=ROUTES)
def test_without_protection_it_is_changed(tmp_path: Path, steps: tuple[str, ...]) -> None:
    folder = repository(tmp_path / "w", ME)
    before = snapshot(folder)[F]
    for step in steps:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        script = f'git() {{ command git {" ".join(who)} "$@"; }}; {step}'
        subprocess.run(["bash", "-c", script], cwd=folder, check=False, capture_output=True)
    assert snapshot(folder).get(F) != before


def put_back(folder: Path, template: Path) -> None:
    """Make a workspace what it was, but for Lockgate's own folder."""
    for path in [path for path in folder.iterdir() if path.name != ".lockgate"]:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)


@pytest.mark.timeout(1200)  # a hundred calls
def test_a_protected_file_ends_as_it_was(lab: Lab, tmp_path: Path) -> None:
    template = tmp_path / "template"
    shutil.copytree(lab.ws, template, symlinks=True)
    found = {}
    for what, steps in ROUTES.items():
        put_back(lab.ws, template)
        before = snapshot(lab.ws)[F]
        for step in steps:
            lab.sh(step)
        kept = snapshot(lab.ws).get(F) == before
        found[what] = (kept, lab.sh("echo on > harmless").landed and lab.text("harmless"))
    assert found == dict.fromkeys(ROUTES, (True, "on\n"))
