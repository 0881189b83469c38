# SPDX-License-Identifier: Apache-2.0
"""What one call left in the cell's home was obeyed by the next: programs that shadow real ones,
settings of git. A reading call printed what the agent liked, an approved one ran what nobody was
shown, and a script that prints "1 passed" earned trust.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.autonomy.reputation import Domain
from policy.model import ActionPlan, Context, Decision, Tier, Verdict
from sandbox.agents.reputation import observed
from sandbox.approvals.approver import yes
from sandbox.cell.run.homes import Home, resolves_to_image
from sandbox.cells.request import IMAGE_PATH, request
from sandbox.results import CallResult, Ending
from tests.container import lab as labs
from tests.container.lab import Lab

PLANT = """
mkdir -p ~/.local/bin ~/.config/git
printf '#!/bin/sh\\necho FAKE\\n' | tee ~/.local/bin/git ~/.local/bin/mine ~/.local/bin/pytest >/dev/null
chmod +x ~/.local/bin/*
git config --global core.fsmonitor 'touch /tmp/planted; false'
git config --global alias.x '!echo FAKE'
echo 'echo FAKE' > ~/.bashrc
"""  # noqa: E501 - a script


@pytest.mark.docker
def test_nothing_that_a_call_left_in_its_home_counts_for_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(plan: ActionPlan, context: Context, policy: object, *_: object) -> Decision:
        said = labs.decide(plan, context, policy)  # type: ignore[arg-type]
        asked = plan.derived_from == "asked"
        return said.model_copy(update={"verdict": Verdict.ASK}) if asked else said

    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
    assert lab.sh(PLANT).exit_status == 0

    # A reading call: the home is nobody's to write, its settings are ours, no planted program runs.
    seen = lab.read(
        "git status --short; git config --get alias.x; mine; ls /tmp/planted; cat ~/.bashrc; "
        "touch ~/x && echo WRITTEN; git config user.name || true; echo $PATH"
    )
    assert "FAKE" not in seen.stdout
    assert "WRITTEN" not in seen.stdout
    assert "/home/agent" not in seen.stdout
    assert "planted" not in seen.stdout

    # A call that writes: real programs come first, those of the home are there (the control).
    assert "git version" in lab.sh("git --version").stdout
    assert lab.sh("mine").stdout == "FAKE\n"

    # A call that a person approved: they were shown none of it; what it leaves stays.
    asked = lab.sh(
        "mine; git config --get alias.x; cat ~/.bashrc; mkdir -p ~/.local/bin; "
        "echo yes > ~/.local/note; git config --global core.abbrev 9; echo $HOME",
        derived_from="asked",
        approver=yes,
    )
    assert asked.stdout == "/home/agent\n"
    after = lab.sh("cat ~/.local/note; mine; git config --get core.abbrev; cat ~/.bashrc")
    assert after.stdout == "yes\nFAKE\n9\necho FAKE\n"


@pytest.mark.docker
def test_calls_that_were_all_approved_share_a_home(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decide(plan: ActionPlan, context: Context, policy: object, *_: object) -> Decision:
        said = labs.decide(plan, context, policy)  # type: ignore[arg-type]
        return said.model_copy(update={"verdict": Verdict.ASK})

    monkeypatch.setattr("sandbox.gates.gate1.decide", decide)
    made = "mkdir -p ~/.local/bin; cd ~/.local/bin; echo 'echo mine' > mine; chmod +x mine"
    lab.sh(made, approver=yes)
    assert lab.sh("mine", approver=yes).stdout == "mine\n"

    # A secret that a person makes while the cell is warm is hidden from the next call.
    (lab.ws / "new").mkdir()
    (lab.ws / "new" / ".env").write_text("TOKEN=later\n")
    (lab.ws / "src" / ".env.local").write_text("TOKEN=later\n")
    (lab.ws / "src" / "plain.txt").write_text("seen\n")
    seen = lab.sh("cat new/.env src/.env.local src/plain.txt; ls -A new", approver=yes)
    assert seen.stdout == "seen\n"
    seen = lab.sh("cat new/.env src/.env.local src/plain.txt; ls -A new", "read", approver=yes)
    assert seen.stdout == "seen\n"


def test_what_was_set_aside_is_joined_with_what_the_call_left(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    home.furnish({".gitconfig": "[user]\n"}, [str(tmp_path)])
    assert home.pristine()
    home.give(approved=True)
    assert home.pristine()  # nothing of an unapproved call was there
    home.give(approved=False)
    (tmp_path / ".gitconfig").write_text("[alias]\n")
    (tmp_path / ".cache" / "a").mkdir(parents=True)
    (tmp_path / ".cache" / "a" / "old").write_text("old")
    (tmp_path / "link").symlink_to("/nowhere")
    assert not home.pristine()

    home.give(approved=True)
    assert (tmp_path / ".gitconfig").read_text() == "[user]\n"
    assert not (tmp_path / ".cache").exists()
    (tmp_path / ".cache" / "a").mkdir(parents=True)
    (tmp_path / ".cache" / "a" / "new").write_text("new")
    (tmp_path / "link").write_text("a file")
    home.restore()
    found = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*"))
    assert found == [".cache", ".cache/a", ".cache/a/new", ".cache/a/old", ".gitconfig", "link"]
    assert (tmp_path / ".gitconfig").read_text() == "[alias]\n"
    assert (tmp_path / "link").read_text() == "a file"


def test_no_folder_that_commands_write_stands_before_the_image() -> None:
    plan = ActionPlan(tool="Bash", workspace="/w", params={"command": "git status"})  # type: ignore[arg-type]
    for writes in (True, False):
        env = request(plan, call="c", exclusive=writes, env=None)["env"]
        assert env["PATH"].startswith(IMAGE_PATH)
        assert all(
            one.startswith("/usr") or one in ("/bin", "/sbin") for one in IMAGE_PATH.split(":")
        )
        assert ("/home/agent" in env["PATH"], "agent" in env["HOME"]) == (writes, writes)


TESTS = {
    "pytest": True,
    "pytest -q tests/test_a.py": True,
    "pytest -x --maxfail=2 -n 4": True,
    "pytest --collect-only": False,
    "pytest -p evil": False,
    "pytest -c evil.ini": False,
    "pytest || true": False,
    "./pytest": False,
    ".venv/bin/pytest": False,
    "python -m pytest": False,
    "npx jest": False,
    "PYTHONPATH=x pytest": False,
    "cd x && pytest": False,
    "pytest\ntrue": False,
    "pre-commit run": False,
}


@pytest.mark.parametrize(("command", "plain"), TESTS.items(), ids=list(TESTS))
def test_only_a_plain_run_of_tests_can_be_vouched_for(command: str, plain: bool) -> None:
    plan = ActionPlan(tool="Bash", workspace="/w", params={"command": command})  # type: ignore[arg-type]
    asked = request(plan, call="c", exclusive=True, env=None, tests=True)
    assert ("vouch" in asked) is plain
    assert "vouch" not in request(plan, call="c", exclusive=True, env={"A": "b"}, tests=True)
    assert "vouch" not in request(plan, call="c", exclusive=True, env=None)


def test_a_program_that_can_be_written_is_not_the_images(tmp_path: Path) -> None:
    fake = tmp_path / "pytest"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    assert not resolves_to_image("pytest", str(tmp_path))
    assert not resolves_to_image("not-there", str(tmp_path))


@pytest.mark.parametrize(
    ("vouched", "status", "counts"),
    [(True, 0, True), (False, 0, None), (False, 1, False), (True, 1, False)],
)
def test_tests_that_pass_count_only_where_they_cannot_be_faked(
    vouched: bool, status: int, counts: bool | None
) -> None:
    result = CallResult(
        id="c1",
        tool="Bash",
        verdict=Verdict.REPORT,
        tier=Tier.CAUTION,
        rules=("tests",),
        message="",
        ending=Ending.RAN,
        exit_status=status,
    )
    event = observed(result, lambda: Domain.CODE_CHANGES, vouched=vouched)
    assert (event.success if event else None) is counts
