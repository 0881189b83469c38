# SPDX-License-Identifier: Apache-2.0
"""What a cell must not see and must not write is found in one bounded walk."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from policy.protected.paths import PathPolicy
from policy.values import comparison
from policy.values import filenames as names
from sandbox.cell.overlay import masks
from sandbox.cell.overlay.masks import Patterns, TooLarge, build, find
from sandbox.containers.recipe import code
from tests.conftest import cannot_run


@pytest.fixture
def patterns() -> Patterns:
    """Return the patterns that ship with Lockgate."""
    policy = PathPolicy.default()
    hide, show = policy.mask_expressions()
    return Patterns(list(hide), list(show), list(policy.pin_expressions()))


def make(root: Path, *names: str) -> None:
    """Make files with their folders."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")


def test_secrets_are_hidden_and_protected_files_pinned_at_any_depth(
    tmp_path: Path, patterns: Patterns
) -> None:
    make(tmp_path, ".env", "a/b/.env.local", "a/.ENV", "keys/id_rsa", "devkit.config.json",
         "a/DevKit.config.json", "README.md", ".env.example", ".lockgate/x")  # fmt: skip
    hidden, pinned = find(str(tmp_path), patterns)
    assert sorted(hidden) == [".env", ".lockgate", "a/.ENV", "a/b/.env.local", "keys/id_rsa"]
    assert sorted(pinned) == ["a/DevKit.config.json", "devkit.config.json"]


def test_only_the_topmost_of_hidden_paths_is_named(tmp_path: Path, patterns: Patterns) -> None:
    make(tmp_path, ".aws/credentials", ".aws/sub/.env")
    hidden, _ = find(str(tmp_path), patterns)
    assert not [a for a in hidden for b in hidden if a.startswith(b + "/")]


def test_names_that_sort_between_a_folder_and_its_content_are_kept() -> None:
    assert masks.topmost(["a/b", "a", "a-b", "a.c", "a"]) == ["a", "a-b", "a.c"]


def test_dependency_folders_and_objects_of_git_are_not_walked(
    tmp_path: Path, patterns: Patterns
) -> None:
    make(tmp_path, "node_modules/p/.env", ".git/objects/.env", ".git/config", "src/objects/.env")
    assert sorted(find(str(tmp_path), patterns)[0]) == [".lockgate", "src/objects/.env"]


def test_links_are_not_followed(tmp_path: Path, patterns: Patterns) -> None:
    outside, work = tmp_path / "outside", tmp_path / "work"
    make(outside, "sub/.env")
    work.mkdir()
    (work / "link").symlink_to(outside)
    (work / "loop").symlink_to(work)
    (work / ".env").symlink_to(outside / "sub" / ".env")
    assert sorted(find(str(work), patterns)[0]) == [".env", ".lockgate"]


def test_a_walk_that_would_be_too_long_is_an_error(
    tmp_path: Path, patterns: Patterns, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tmp_path, *(f"f{n}" for n in range(12)))
    monkeypatch.setattr(masks, "MOST_ENTRIES", 10)
    with pytest.raises(TooLarge, match="more than 10 entries"):
        find(str(tmp_path), patterns)


def test_names_are_compared_in_one_form_and_case() -> None:
    one = Patterns(["(?:.*/)?\u00e9cole"], ["shown/.*"], [])
    assert one.hides("a/E\u0301COLE")
    assert not one.hides("shown/\u00e9cole")
    assert not one.hides("\u00e9cole2")


def test_no_pattern_matches_nothing() -> None:
    nothing = Patterns([], [], [])
    assert not nothing.hides("")
    assert not nothing.pins("a")


def test_a_mask_layer_holds_whiteouts_in_folders_like_the_real_ones(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        cannot_run("only root can make whiteouts")
    work, layer = tmp_path / "work", tmp_path / "layer"
    make(work, "a/b/.env", ".env")
    os.chown(work / "a", 1234, 1235)
    (work / "a").chmod(0o2750)
    os.utime(work / "a", ns=(1, 2_000_000_000))
    build(str(layer), str(work), [".env", "a/b/.env", "gone/.env"], {1234: 99})
    for name in (".env", "a/b/.env"):
        info = (layer / name).lstat()
        assert stat.S_ISCHR(info.st_mode)
        assert info.st_rdev == 0
    times = [(folder / "a" / "b").stat().st_mtime_ns for folder in (work, layer)]
    assert times[0] == times[1]
    folder = (layer / "a").stat()
    assert (folder.st_uid, folder.st_gid, folder.st_mtime_ns) == (99, 1235, 2_000_000_000)
    assert stat.S_IMODE(folder.st_mode) == 0o2750


def test_names_are_compared_as_gate_2_does() -> None:
    """The images take the very text that the policy has."""
    assert code()["overlay/comparison.py"] == Path(comparison.__file__).read_bytes()


def test_a_spelling_that_a_file_system_could_take_for_a_secret_is_hidden(
    tmp_path: Path, patterns: Patterns
) -> None:
    make(tmp_path, ".env.", "a/.e\u200bnv", "devkit.config.json ", ".env.example.")
    assert find(str(tmp_path), patterns) == (
        [".env.", ".lockgate", "a/.e\u200bnv"],
        ["devkit.config.json "],
    )


def test_a_folder_that_holds_protected_files_is_known() -> None:
    patterns = Patterns([], [], [], ["(?:.*/)?governance", "deep/er"])
    said = [patterns.holds_pins(path) for path in ("governance", "a/GOVERNANCE.", "deep/er", "x")]
    assert said == [True, True, True, False]


def test_a_protected_folder_is_one_pin_and_globs_find_what_is_there(tmp_path: Path) -> None:
    make(tmp_path, "gov/a/b.yml", "gov/c.yml", "plans/x.lock", "plans/deep/y.lock", "plans/z.txt")
    expressions = names.expressions(["/gov/**", "/plans/**/*.lock"])
    patterns = Patterns([], [], list(expressions))
    assert find(str(tmp_path), patterns)[1] == ["gov", "plans/x.lock", "plans/deep/y.lock"]


def test_pins_are_bounded_and_the_outermost_go_first(tmp_path: Path, patterns: Patterns) -> None:
    make(tmp_path, *(f"d{n}/e/devkit.config.json" for n in range(masks.MOST_PINS + 10)))
    make(tmp_path, "z/devkit.config.json", "devkit.config.json")
    pinned = find(str(tmp_path), patterns)[1]
    assert pinned[:2] == ["devkit.config.json", "z/devkit.config.json"]
    assert len(pinned) == masks.MOST_PINS
