# SPDX-License-Identifier: Apache-2.0
"""Settings and folders."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from policy.model import Frozen
from sandbox.config.settings import CellSettings, IdleSettings, Lifetime, Settings, load_settings
from sandbox.errors import BadInput, Unavailable
from sandbox.host.dirs import Dirs
from sandbox.host.version import VERSION, digest

ROOT = Path(__file__).parents[3]


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    assert load_settings(dirs) == Settings()
    dirs.config.mkdir()
    dirs.settings.write_text("\n")
    assert load_settings(dirs) == Settings()


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    dirs.settings.write_text("lifetime: disposable\ncell:\n  memory_mib: 512\n")
    found = load_settings(dirs)
    assert found == Settings(lifetime=Lifetime.DISPOSABLE, cell=CellSettings(memory_mib=512))


def test_a_question_waits_half_an_hour_unless_said(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    assert load_settings(dirs).approval_seconds == 30 * 60
    dirs.config.mkdir()
    dirs.settings.write_text("approval_seconds: 40\n")
    assert load_settings(dirs).approval_seconds == 40


def test_an_unknown_key_is_refused_with_its_line(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    dirs.settings.write_text("# mine\nlifetime: resident\nnetwork: host\n")
    with pytest.raises(BadInput) as caught:
        load_settings(dirs)
    assert str(caught.value).startswith(f"{dirs.settings}:3: ")
    assert "`network`" in str(caught.value)


WRONG: dict[str, tuple[bytes, str]] = {
    "no UTF-8": (b"# a\ncall_seconds: 3 # \xff\n", ":2: it is not UTF-8"),
    "a tab": (b"cell:\n\tcpus: 2\n", ":2: the line is indented with a tab; use spaces"),
    "a truth": (b"call_seconds: true\n", ":1: `call_seconds`: it should be a number"),
    "a list": (b"- a\n", ": it should be a mapping, such as `{a: b}`"),
    "a zone": (b"time_zone: Mars/X\n", ":1: `time_zone`: `Mars/X` is no time zone"),
}


@pytest.mark.parametrize(("data", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_said_with_its_line(tmp_path: Path, data: bytes, says: str) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    dirs.settings.write_bytes(data)
    with pytest.raises(BadInput) as caught:
        load_settings(dirs)
    assert str(caught.value).startswith(f"{dirs.settings}{says}")
    assert "\n" not in str(caught.value)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], None]) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    make(dirs.settings)
    with pytest.raises(BadInput, match="it is no file; put a file there or remove it"):
        load_settings(dirs)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    for text in ("", "# nothing\n", "---\n", "null\n"):
        dirs.settings.write_text(text)
        assert load_settings(dirs) == Settings()


@pytest.mark.parametrize("model", [Settings, CellSettings, IdleSettings])
def test_every_setting_is_documented(model: type[Frozen]) -> None:
    source = (ROOT / "sandbox" / "config" / "settings.py").read_text()
    for name in model.model_fields:
        line = next(
            n for n, text in enumerate(source.split("\n")) if text.startswith(f"    {name}:")
        )
        assert source.split("\n")[line + 1].strip().startswith('"""'), name


def test_folders_are_closed_to_others(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.state.mkdir(mode=0o755, parents=True)
    dirs.create()
    for folder in (dirs.state, dirs.runtime):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_folders_follow_the_xdg_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative is ignored")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "not there"))
    monkeypatch.setenv("HOME", str(tmp_path))
    dirs = Dirs.default()
    assert dirs.state == tmp_path / "s" / "lockgate"
    assert dirs.config == tmp_path / ".config" / "lockgate"
    assert dirs.runtime == tmp_path / "s" / "lockgate" / "run"


def test_a_state_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(Unavailable, match="cannot be made"):
        Dirs.under(tmp_path).create()


def test_a_socket_path_that_is_too_long_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="set XDG_RUNTIME_DIR to a shorter folder"):
        _ = Dirs.under(tmp_path / ("x" * 120)).socket


def test_the_version_is_the_projects() -> None:
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == VERSION


def test_the_digest_follows_the_settings(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    before = digest(str(dirs.config))
    assert digest(str(dirs.config)) == before
    dirs.config.mkdir()
    (dirs.config / "policy.yaml").write_text("version: 1\n")
    assert digest(str(dirs.config)) == before  # a running supervisor reads it again
    dirs.settings.write_text("lifetime: disposable\n")
    assert digest(str(dirs.config)) != before
