# SPDX-License-Identifier: Apache-2.0
"""What the supervisor takes over from whoever starts it, who may be an agent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sandbox.client.blocking import BlockingClient
from sandbox.client.inherited import kept_variables
from sandbox.host.dirs import Dirs

STEERS = (
    *("OTEL_RESOURCE_ATTRIBUTES", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_TRACES_SAMPLER"),
    *("HTTP_PROXY", "https_proxy", "ALL_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "OPENSSL_CONF", "LD_PRELOAD", "LD_AUDIT"),
    *("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONWARNINGS", "BASH_ENV", "ENV"),
    *("BASH_FUNC_git%%", "PERL5LIB", "RUBYOPT", "NODE_OPTIONS", "GIT_CONFIG_COUNT", "GIT_TRACE"),
    *("GIT_EXEC_PATH", "GIT_SSH_COMMAND"),
)
STAYS = ("HOME", "LANG", "TZ", "XDG_STATE_HOME", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY",
         "DOCKER_HOST", "DOCKER_CONTEXT", "GIT_CONFIG_GLOBAL", "PYTHONPATH", "A_TOKEN",
         "GITHUB_TOKEN")  # fmt: skip


def test_what_steers_programs_is_left_out_and_what_a_person_chose_stays() -> None:
    given = dict.fromkeys((*STEERS, *STAYS), "a")
    assert kept_variables(given, (), "/home/me") == dict.fromkeys(STAYS, "a")


def test_nothing_leads_into_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "w/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "w/bin")
    workspace = str(tmp_path / "w")
    given = {
        "PATH": f"{workspace}/bin:{tmp_path}/link:bin::.:/usr/bin:{tmp_path}/web:/bin",
        "DOCKER_HOST": f"unix://{workspace}/docker.sock",
        "PIP_CONFIG_FILE": f"{tmp_path}/link/pip.conf",
        "TMPDIR": f"{tmp_path}/web",
    }
    kept = {"PATH": f"/usr/bin:{tmp_path}/web:/bin", "TMPDIR": f"{tmp_path}/web"}
    assert kept_variables(given, [workspace], "/home/me") == kept
    whole = kept_variables(given, [], "/home/me")  # the control
    assert whole == {**given, "PATH": f"{workspace}/bin:{tmp_path}/link:{kept['PATH']}"}


@pytest.fixture
def dirs() -> Iterator[Dirs]:
    with TemporaryDirectory(prefix="lg-") as folder:  # a short path: it holds a socket
        yield Dirs.under(Path(folder))


def test_a_supervisor_begins_without_what_its_starter_would_steer_it_by(
    dirs: Dirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = dirs.state.parent / "w"
    (workspace / "bin").mkdir(parents=True)
    dirs.create()
    listed = {"workspaces": [{"path": str(workspace)}]}
    (dirs.state / "workspaces.json").write_text(json.dumps(listed))
    steering = {name: "1" for name in STEERS if name[:3] in ("OTE", "GIT", "BAS", "NOD", "RUB")}
    steering |= {"HTTP_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
    for name, value in {**steering, "A_TOKEN": "kept"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{workspace}/bin:{os.environ['PATH']}")
    with BlockingClient(dirs) as client:
        pid = client.ping()["pid"]
        text = Path(f"/proc/{pid}/environ").read_bytes()
        assert client.shutdown(force=True)
    began = dict(line.partition("=")[::2] for line in os.fsdecode(text).split("\0"))
    assert began["A_TOKEN"] == "kept"  # the control: it is the starter's
    assert not set(steering) & set(began)
    assert str(workspace) not in text.decode()
    assert "/usr/bin" in began["PATH"].split(":")
