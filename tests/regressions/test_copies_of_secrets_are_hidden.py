# SPDX-License-Identifier: Apache-2.0
"""What editors and people leave beside a hidden file was not hidden: `.env~`, `id_rsa.bak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.protected.paths import PathPolicy
from tests.container.lab import Lab
from tests.sandbox.hooks.test_hook_door import Hooks

PATHS = PathPolicy.default()
HIDDEN = (
    *(".env~", "a/.#.env", "#.env#", "prod.env", ".envs/.production/.django", ".dev.vars"),
    *(
        "id_rsa.bak",
        "id_ed25519.old",
        "tls/server.pem~",
        "a.key.orig",
        ".netrc.save",
        ".id_rsa.swp",
    ),
    *(".secrets.toml", ".secret", "ssh_host_rsa_key", "deploy_key", "x.keytab", "kubeconfig"),
    *("terraform.tfvars", "a.auto.tfvars", ".cargo/credentials.toml", ".m2/settings.xml"),
    *(".config/gh/hosts.yml", ".s3cfg", "rclone.conf", ".password-store/x.gpg", ".bash_history"),
    *(".huggingface/token", ".fly/config.yml", "wg0.conf", "a.ovpn", "cookies.sqlite"),
)
SHOWN = (
    *("example.env", "docs/app.sample.env", ".env.example", ".dev.vars.example", "src/env.py"),
    *("id_rsa.pub", "public.pem", "variables.tf", "a.tfvars", "src/secret.py", "config.yml~"),
    *("history.md", "src/credentials.py", "docs/kubeconfig.md", "keys.ts", ".envs/local/a.example"),
)


@pytest.mark.parametrize("path", HIDDEN)
def test_it_is_hidden(path: str) -> None:
    assert PATHS.is_secret(path)


@pytest.mark.parametrize("path", SHOWN)
def test_others_are_not(path: str) -> None:
    assert not PATHS.is_secret(path)


def test_tools_on_the_host_ask_before_they_read_it(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    for name in ("id_rsa.bak", "prod.env", "notes.md"):
        (hooks.place / name).write_text("x")
        said = hooks.claude("Read", file_path=str(hooks.place / name))
        assert (said["permissionDecision"] == "allow") is (name == "notes.md"), said


def test_in_a_cell(lab: Lab) -> None:
    for name in (".env~", "id_rsa.bak", "prod.env", "example.env"):
        (lab.ws / name).write_text("TOKEN=x\n")
    seen = lab.read("cat .env~ id_rsa.bak prod.env example.env 2>&1; ls -A")
    assert seen.stdout.count("TOKEN=x") == 1
