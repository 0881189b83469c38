# SPDX-License-Identifier: Apache-2.0
"""Settings and folders."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest

from policy.model import Frozen
from sandbox.config import CellSettings, IdleSettings, Lifetime, Settings, load_settings
from sandbox.dirs import Dirs
from sandbox.errors import BadInput, Unavailable
from sandbox.version import VERSION, digest

ROOT = Path(__file__).parent.parent.parent


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


def test_an_unknown_key_is_refused_with_its_line(tmp_path: Path) -> None:
    dirs = Dirs.under(tmp_path)
    dirs.config.mkdir()
    dirs.settings.write_text("# mine\nlifetime: resident\nnetwork: host\n")
    with pytest.raises(BadInput) as caught:
        load_settings(dirs)
    assert str(caught.value).startswith(f"{dirs.settings}:3: ")
    assert "`network`" in str(caught.value)


@pytest.mark.parametrize("model", [Settings, CellSettings, IdleSettings])
def test_every_setting_is_documented(model: type[Frozen]) -> None:
    source = (ROOT / "sandbox" / "config.py").read_text()
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
    before = digest(dirs)
    assert digest(dirs) == before
    dirs.config.mkdir()
    (dirs.config / "policy.yaml").write_text("version: 1\n")
    assert digest(dirs) == before  # a running supervisor reads it again
    dirs.settings.write_text("lifetime: disposable\n")
    assert digest(dirs) != before
