# SPDX-License-Identifier: Apache-2.0
"""What comes to count by a held change: found, bound and shown, however much there is of it."""

from __future__ import annotations

from pathlib import Path

from policy.model import Change, FileType, Kind
from policy.protected.paths import PathPolicy
from sandbox.gates.shown_changes import show
from sandbox.workspaces import led_to
from sandbox.workspaces.led_to import UNBOUND, find_leads, read_state, show_leads


def _config(text: str) -> Change:
    return Change(".git/config", Kind.MODIFIED, FileType.FILE, before_text="", after_text=text)


def _never(_: str) -> bool:
    return False


def test_files_that_are_included_are_followed_to_a_bound_and_never_taken_for_all(
    tmp_path: Path,
) -> None:
    count = led_to.MOST_LEADS + 500
    for number in range(count):
        text = f"[include]\n\tpath = i{number + 1}\n"
        (tmp_path / f"i{number}").write_text(text)
    leads = find_leads(str(tmp_path), _config("[include]\n\tpath = ../i0\n"), ())
    assert UNBOUND in leads
    assert read_state(str(tmp_path), leads) != read_state(str(tmp_path), leads)
    (tmp_path / "i9").write_text("[core]\n\thooksPath = hooks\n")
    leads = find_leads(str(tmp_path), _config("[include]\n\tpath = ../i0\n"), ())
    assert (len(leads), leads[-1]) == (11, "hooks")
    before = read_state(str(tmp_path), leads)
    assert before == read_state(str(tmp_path), leads)
    (tmp_path / "hooks").mkdir()
    assert before != read_state(str(tmp_path), leads)


def test_what_lies_outside_and_secrets_are_not_shown(tmp_path: Path) -> None:
    top, outside = tmp_path / "w", tmp_path / "outside"
    for folder in (top / "kept", outside):
        folder.mkdir(parents=True)
    (outside / "id").write_text("not of the workspace\n")
    (top / "ext").symlink_to(outside)
    (top / "kept/run").write_text("run me\n")
    (top / "kept/.env").write_text("TOKEN=1\n")

    def is_secret(path: str) -> bool:
        return path.endswith(".env")

    shown = show_leads(str(top), ["ext/id", "ext", "kept"], is_secret)
    assert "run me" in shown
    assert "not of the workspace" not in shown
    assert "TOKEN" not in shown and "[a secret]" in shown


def test_many_links_and_folders_are_cut(tmp_path: Path) -> None:
    for number in range(led_to.MOST_LOOKS + 2):
        (tmp_path / f"d{number}").mkdir()
    assert show_leads(str(tmp_path), [""], _never) == "and more files count by this call\n"


def test_a_long_chain_of_links_is_followed_in_time_that_grows_with_it(tmp_path: Path) -> None:
    count = 3_000
    changes = [Change(".husky", Kind.CREATED, FileType.SYMLINK, target=f"l{count}")]
    changes += [
        Change(f"l{n}", Kind.CREATED, FileType.SYMLINK, target=f"l{n - 1}")
        for n in range(1, count + 1)
    ]
    shown = show([changes], [str(tmp_path)], PathPolicy.default())
    assert sum(view.protected == "led-to" for view in shown.views) == count
