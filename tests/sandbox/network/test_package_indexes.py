# SPDX-License-Identifier: Apache-2.0
"""Which package indexes a cell may reach: those of the host's own settings, without passwords."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.network import trust
from sandbox.network.book import Reach
from sandbox.network.indexes import Index, configured, place, variables


def write(path: Path, text: str) -> None:
    """Write a file of settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def alone(home: Path) -> dict[str, str]:
    """Return variables that keep this machine's own files out."""
    return {"XDG_CONFIG_DIRS": str(home / "xdg"), "npm_config_globalconfig": str(home / "none")}


PLACES = {
    "https://pkg.example/simple": (
        "https://pkg.example/simple",
        Reach("pkg.example", (443,), (443,)),
    ),
    "http://Pkg.example:8080/x/": (
        "http://pkg.example:8080/x/",
        Reach("pkg.example", (8080,), (8080,)),
    ),
    "https://me:secret@pkg.example/": (
        "https://pkg.example/",
        Reach("pkg.example", (443,), (443,)),
    ),
}


@pytest.mark.parametrize("address, found", PLACES.items(), ids=PLACES)
def test_an_address_gives_its_host_and_loses_its_password(
    address: str, found: tuple[str, Reach]
) -> None:
    assert place(address, private=True) == found  # a named tuple


@pytest.mark.parametrize(
    "address",
    ["", "file:///srv/index", "/srv/index", "http://127.0.0.1:3141/", "http://localhost/",
     "http://[::1]/", "https://a.example/ b", "ftp://a.example/", "https://a.example:0/"],
)  # fmt: skip
def test_an_address_without_a_hosts_name_is_none(address: str) -> None:
    assert place(address, private=True) is None


ORIGINS = {
    "https://packages.example/simple/": "https://packages.example",
    "https://who:secret@packages.example:8443/a/b": "https://packages.example:8443",
    "http://packages.example": "http://packages.example",
}


@pytest.mark.parametrize(("address", "origin"), ORIGINS.items())
def test_an_address_gives_what_a_lock_file_may_name(address: str, origin: str) -> None:
    found = place(address, private=True)
    assert found is not None
    assert found.origin == origin


def test_pip_is_read_from_files_and_variables_the_last_word_counts(tmp_path: Path) -> None:
    given = alone(tmp_path)
    write(tmp_path / "xdg/pip/pip.conf", "[global]\nindex-url = https://machine.example/simple\n")
    assert configured("pip", given, tmp_path).main == "https://machine.example/simple"
    own = "[global]\nindex-url = https://u:p@own.example/simple\n[install]\n"
    own += "extra-index-url =\n  https://more.example/simple\n  file:///srv/x\n"
    write(tmp_path / ".config/pip/pip.conf", own)
    found = configured("pip", given, tmp_path)
    assert found == Index("https://own.example/simple", ("https://more.example/simple",))
    assert variables("pip", found) == {
        "PIP_INDEX_URL": "https://own.example/simple",
        "PIP_EXTRA_INDEX_URL": "https://more.example/simple",
    }
    told = {**given, "PIP_INDEX_URL": "https://said.example/simple"}
    assert configured("pip", told, tmp_path).main == "https://said.example/simple"


def test_npm_is_read_from_its_file_and_variables(tmp_path: Path) -> None:
    given = alone(tmp_path)
    write(
        tmp_path / ".npmrc",
        "; registry=https://not.example/\n//own.example/:_authToken=secret\n"
        'registry = "https://own.example/npm/"\n',
    )
    found = configured("npm", given, tmp_path)
    assert found == Index("https://own.example/npm/")
    assert variables("npm", found) == {"npm_config_registry": "https://own.example/npm/"}
    told = {**given, "NPM_CONFIG_REGISTRY": "https://said.example/"}
    assert configured("npm", told, tmp_path).main == "https://said.example/"


@pytest.mark.parametrize("client", ["pip", "npm"])
def test_a_host_that_says_nothing_leaves_it_to_the_client(client: str, tmp_path: Path) -> None:
    found = configured(client, alone(tmp_path), tmp_path)
    assert found == Index()
    assert variables(client, found) == {}


def test_a_main_index_that_no_cell_reaches_is_not_replaced_by_another(tmp_path: Path) -> None:
    """Another index could hold another package of the same name."""
    given = {**alone(tmp_path), "PIP_INDEX_URL": "http://127.0.0.1:3141/root/pypi"}
    found = configured("pip", {**given, "PIP_EXTRA_INDEX_URL": "https://a.example/"}, tmp_path)
    assert (found.main, found.more) == ("", ())
    assert "no host's name" in found.problem


def test_a_file_of_settings_that_is_none_says_nothing(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").mkdir()
    (tmp_path / ".config/pip/pip.conf").mkdir(parents=True)
    assert configured("pip", alone(tmp_path), tmp_path) == Index()
    assert configured("npm", alone(tmp_path), tmp_path) == Index()


BEYOND = {
    "a file that pip does not take": ("pip", "no section\n\0", "cannot be read"),
    "an option twice": (
        "pip",
        "[global]\nindex-url = https://a.example/\nindex-url = https://b.example/\n",
        "cannot be read",
    ),
    "no index at all": ("pip", "[global]\nno_index = true\n", "say `no-index`"),
    "folders of packages": ("pip", "[install]\nfind-links = /srv/x\n", "say `find-links`"),
    "another registry for a scope": (
        "npm",
        "@corp:registry=https://npm.corp.example/\n",
        "give `@corp` a registry of its own",
    ),
}


@pytest.mark.parametrize(("client", "text", "why"), BEYOND.values(), ids=BEYOND)
def test_what_a_cell_cannot_be_told_installs_nothing_from_another_index(
    tmp_path: Path, client: str, text: str, why: str
) -> None:
    write(tmp_path / (".npmrc" if client == "npm" else ".config/pip/pip.conf"), text)
    found = configured(client, alone(tmp_path), tmp_path)
    assert (found.main, found.more) == ("", ())
    assert why in found.problem


def test_pip_takes_underscores_too(tmp_path: Path) -> None:
    write(tmp_path / ".config/pip/pip.conf", "[global]\nindex_url = https://own.example/simple\n")
    assert configured("pip", alone(tmp_path), tmp_path).main == "https://own.example/simple"


def test_the_hosts_certificates_come_without_anything_else(tmp_path: Path) -> None:
    body = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    key = "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"
    file = tmp_path / "trust.pem"
    file.write_text(f"# comment\n{body}{key}{body}")
    assert trust.certificates({"SSL_CERT_FILE": str(file)}) == body + body
