# SPDX-License-Identifier: Apache-2.0
"""A lock file could say that a package comes from another place than before, and landed unread.

The person's next install ran the code that lies there. Lock files, and manifests that are programs,
are condensed to the places that they name: one that was not there before is held and named; other
packages and versions of the places that are there land.
"""

from __future__ import annotations

import json

import pytest

from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind
from sandbox.cell.overlay.addresses import MAX_BYTES, MAX_LOOKS, MAX_PLACES, condensed
from tests.container.lab import Lab
from tests.regressions.test_what_programs_obey_is_held import DECISION, PATHS, change, outcome

INDEX = "https://packages.example"
OTHER = "https://elsewhere.example"


def _npm(**packages: object) -> str:
    known = {"node_modules/a": {"resolved": f"{INDEX}/a/-/a-1.0.0.tgz"}}
    return json.dumps({"lockfileVersion": 3, "packages": {**known, **packages}}, indent=2)


def _composer(name: str, place: str, **more: object) -> str:
    dist = {"type": "zip", "url": f"https://{place}/repos/who/{name}/zipball/0123"}
    source = {"type": "git", "url": f"https://forge.example/{name}.git"}
    return json.dumps({"packages": [{"name": name, "dist": dist, "source": source, **more}]})


CARGO = (
    '[[package]]\nname = "a"\nversion = "1.0.0"\n'
    'source = "registry+https://forge.example/index/crates"\n'
)
UV = f'source = {{ registry = "{INDEX}/simple" }}\n'
TIME = 'upload-time = "2025-01-01T00:00:00Z"'
ENCODED = OTHER.replace(":", "%3A").replace("/", "%2F")
CASES: dict[str, tuple[str, str | None, str | None, str]] = {
    # path, text before, text after, the outcome
    "another package of the index": (
        "package-lock.json",
        _npm(),
        _npm(b={"version": "2.0.0", "resolved": f"{INDEX}/@b%2fb/-/b-2.0.0.tgz"}),
        "land",
    ),
    "who is to be funded": (
        "package-lock.json",
        _npm(),
        _npm(
            b={"resolved": f"{INDEX}/b/-/b-2.tgz", "funding": {"url": OTHER}, "deprecated": OTHER}
        ),
        "land",
    ),
    "a package from elsewhere": (
        "web/package-lock.json",
        _npm(),
        _npm(b={"resolved": f"{OTHER}/b/-/b-2.0.0.tgz"}),
        "hold",
    ),
    "a package that is called like a word for people": (
        "package-lock.json",
        _npm(),
        _npm(funding={"resolved": f"{OTHER}/b/-/b-2.0.0.tgz"}),
        "hold",
    ),
    "said twice": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "@"}).replace('"@"', f'"{OTHER}/b", "resolved": "{INDEX}/b/-/b.tgz"'),
        "hold",
    ),
    "with an escape": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "@"}).replace("@", "\\u0068ttps:\\u002f\\u002felsewhere.example/b"),
        "hold",
    ),
    "with backslashes": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "https:\\\\elsewhere.example\\b"}),
        "hold",
    ),
    "without a slash": (
        "npm-shrinkwrap.json",
        _npm(),
        _npm(b={"resolved": "https:x.example"}),
        "hold",
    ),
    "a name before the server": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "https://packages.example@elsewhere.example/b/-/b-1.tgz"}),
        "hold",
    ),
    "a repository": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "git+ssh://git@forge.example/who/b.git#0123"}),
        "hold",
    ),
    "another commit of a repository": (
        "package-lock.json",
        _npm(b={"resolved": "git+ssh://git@forge.example/who/b.git#0123"}),
        _npm(b={"resolved": "git+ssh://git@forge.example/who/b.git#4567"}),
        "land",
    ),
    "another repository of a forge": (
        "package-lock.json",
        _npm(b={"resolved": "git+ssh://git@forge.example/who/b.git#0123"}),
        _npm(b={"resolved": "git+ssh://git@forge.example/mallory/b.git#0123"}),
        "hold",
    ),
    "a short name of a repository": (
        "package-lock.json",
        _npm(),
        _npm(b={"version": "github:mallory/b#0123"}),
        "hold",
    ),
    "no place any more": ("package-lock.json", _npm(), '{"packages": {}}', "land"),
    "it goes": ("package-lock.json", _npm(), None, "land"),
    "the first one, without packages": ("Cargo.lock", None, "version = 4\n", "land"),
    "the first one, with packages": ("Cargo.lock", None, CARGO, "hold"),
    "cargo update": ("Cargo.lock", CARGO, CARGO + CARGO.replace('"a"', '"b"'), "land"),
    "a crate from git": (
        "Cargo.lock",
        CARGO,
        CARGO
        + CARGO.replace(
            "registry+https://forge.example/index/crates", "git+https://forge.example/index/x#1"
        ),
        "hold",
    ),
    "a packed yarn": (
        "yarn.lock",
        f'"a@npm:^1.0.0":\n  resolution: "a@npm:1.0.0"\n  checksum: 10c0/0123\n  # {INDEX}\n',
        f'"a@npm:^1.0.0":\n  resolution: "a@npm:1.0.0::__archiveUrl={ENCODED}%2Fa.tgz"\n',
        "hold",
    ),
    "a patch of yarn's own": (
        "yarn.lock",
        '"a@npm:^1.0.0":\n  resolution: "a@npm:1.0.0"\n',
        '"t@patch:t@npm%3A^5#optional!builtin<compat/t>":\n  resolution: "t@patch:t@npm%3A5.0.0"\n',
        "land",
    ),
    "yarn from git": ("yarn.lock", "", '"a@git@forge.example:mallory/a.git":\n', "hold"),
    "a tarball of pnpm's": (
        "pnpm-lock.yaml",
        "packages:\n  a@1.0.0:\n    resolution: {integrity: sha512-x==}\n",
        f"packages:\n  a@1.0.0:\n    resolution: {{tarball: {OTHER}/a.tgz, integrity: x==}}\n",
        "hold",
    ),
    "pnpm update": (
        "pnpm-lock.yaml",
        "packages:\n  a@1.0.0:\n    resolution: {integrity: sha512-x==}\n",
        "packages:\n  '@b/a@1.1.0(c@2.0.0)':\n    resolution: {integrity: sha512-y==}\n",
        "land",
    ),
    "uv lock": (
        "uv.lock",
        UV + f'wheels = [{{ url = "{INDEX}/files/aa/a.whl", hash = "sha256:1" }}]\n',
        UV + f'wheels = [{{ url = "{INDEX}/files/bb/b.whl", hash = "sha256:2", {TIME} }}]\n',
        "land",
    ),
    "uv, a wheel from elsewhere": (
        "uv.lock",
        f'source = {{ registry = "{INDEX}/simple" }}\n',
        f'source = {{ registry = "{INDEX}/simple" }}\nwheels = [{{ url = "{OTHER}/a.whl" }}]\n',
        "hold",
    ),
    "an escape in a text": (
        "uv.lock",
        "",
        'url = "https:\\u002f\\u002felsewhere.example/a.whl"\n',
        "hold",
    ),
    "composer require": (
        "composer.lock",
        _composer("who/a", "api.example"),
        _composer(
            "whom/b",
            "api.example",
            homepage=OTHER,
            support={"source": OTHER},
            authors=[{"homepage": OTHER}],
        ),
        "land",
    ),
    "composer from elsewhere": (
        "composer.lock",
        _composer("who/a", "api.example"),
        _composer("who/a", "elsewhere.example"),
        "hold",
    ),
    "a patch of a package": (
        "composer.lock",
        _composer("who/a", "api.example"),
        _composer("who/a", "api.example", extra={"patches": {"b": f"{OTHER}/x.patch"}}),
        "hold",
    ),
    "bundle update": (
        "Gemfile.lock",
        f"GEM\n  remote: {INDEX}/\n  specs:\n    a (1.0)\n",
        f"GEM\n  remote: {INDEX}/\n  specs:\n    a (1.1)\n",
        "land",
    ),
    "a gem from elsewhere": (
        "Gemfile.lock",
        f"GEM\n  remote: {INDEX}/\n",
        f"GEM\n  remote: {OTHER}/\n",
        "hold",
    ),
    "a folder outside": ("package-lock.json", _npm(), _npm(b={"resolved": "file:../x"}), "hold"),
    "a folder inside": (
        "package-lock.json",
        _npm(),
        _npm(b={"resolved": "file:packages/x"}),
        "land",
    ),
    "a list that is no text": ("bun.lockb", "", None, "land"),
    "an artifact of gradle's": (
        "build.gradle",
        "",
        'dependencies { implementation("com.a.b:c:1.0@aar") }\n',
        "land",
    ),
    "a repository of gradle's": (
        "app/build.gradle.kts",
        "repositories { mavenCentral() }\n",
        f'repositories {{ mavenCentral(); maven("{OTHER}/maven") }}\n',
        "hold",
    ),
    "a link in a comment": ("build.gradle", "", f"// see {OTHER}/issue\n# {OTHER}\n", "land"),
    "a package of Swift's": (
        "Package.swift",
        "",
        f'.package(url: "{OTHER}/a.git", from: "1.0.0"),\n',
        "hold",
    ),
    "another version of it": (
        "Package.swift",
        f'.package(url: "{OTHER}/a.git", from: "1.0.0"),\n',
        f'.package(url: "{OTHER}/a.git", from: "1.1.0"),\n',
        "land",
    ),
    "a pod": ("Podfile", "", "pod 'A', '~> 1.0'\n", "land"),
    "a pod from git": ("Podfile", "", f"pod 'A', :git => '{OTHER}/a.git'\n", "hold"),
    "a dependency of Elixir's": ("mix.exs", "", 'defp deps, do: [{:jason, "~> 1.4"}]\n', "land"),
    "the same from git": (
        "mix.exs",
        "",
        f'defp deps, do: [{{:jason, git: "{OTHER}/jason.git"}}]\n',
        "hold",
    ),
    "another branch of a flake": (
        "flake.nix",
        'inputs.nixpkgs.url = "github:who/pkgs/23.11";\n',
        'inputs.nixpkgs.url = "github:who/pkgs/24.05";\n',
        "land",
    ),
    "another flake": (
        "flake.nix",
        'inputs.nixpkgs.url = "github:who/pkgs/23.11";\n',
        'inputs.nixpkgs.url = "github:mallory/pkgs/23.11";\n',
        "hold",
    ),
}


def _places(text: str | None) -> str | None:
    return None if text is None else condensed(text.encode())


@pytest.mark.parametrize("path, before, after, expected", CASES.values(), ids=CASES)
def test_places(path: str, before: str | None, after: str | None, expected: str) -> None:
    assert PATHS.condenses(path)
    found = change(path, before, after)
    told = Change(
        path, found.kind, FileType.FILE, before_text=_places(before), after_text=_places(after)
    )
    assert outcome(told) == expected


def test_the_place_is_named() -> None:
    after = condensed(_npm(b={"resolved": f"{OTHER}/b/-/b-2.0.0.tgz"}).encode())
    told = Change(
        "package-lock.json", Kind.MODIFIED, FileType.FILE, before_text="", after_text=after
    )
    said = judge(DECISION, [told], PATHS, workspace="/w").message
    assert f"`{OTHER}`" in said and "lock-file" in said, said


def test_a_first_lock_file_may_name_the_index_that_its_call_got_packages_from() -> None:
    for texts, expected in (
        ([None, _npm()], "land"),
        ([_npm(), _npm(b={"resolved": f"{OTHER}/b/-/b-2.0.0.tgz"})], "hold"),
        ([None, _npm(b={"resolved": "https://packages.example.evil.example/b.tgz"})], "hold"),
        ([None, _npm(b={"resolved": "https://packages.example:8443/b.tgz"})], "hold"),
        ([None, _npm(b={"resolved": "http://packages.example/b.tgz"})], "hold"),
    ):
        told = change("package-lock.json", *map(_places, texts))
        found = judge(DECISION, [told], PATHS, workspace="/w", indexes=frozenset((INDEX,)))
        assert found.outcome.value == expected, texts
    first = change("package-lock.json", None, _places(_npm()))
    assert outcome(first) == "hold"  # of a call that got none


def test_flakes_are_judged_by_their_keys() -> None:
    def lock(owner: str, rev: str) -> str:
        locked = {"owner": owner, "repo": "pkgs", "type": "github", "rev": rev, "narHash": rev}
        return json.dumps({"nodes": {"pkgs": {"locked": locked}}, "root": "root", "version": 7})

    assert outcome(change("flake.lock", lock("who", "1"), lock("who", "2"))) == "land"
    assert outcome(change("flake.lock", lock("who", "1"), lock("mallory", "1"))) == "hold"


HOSTILE = {
    "many addresses": b"a:/ " * (MAX_LOOKS + 2),
    "many places": b"\n".join(b"https://h%d/" % n for n in range(MAX_PLACES + 2)),
    "a long one": b"https://h/" + b"a:/" * 4000,
    "too long": b" " * (MAX_BYTES + 1),
    "no text": b"\xff\xfe",
    "what does not show": b"https://h\xe2\x80\xae/",
    "deep": b"[" * 100_000 + b"]" * 100_000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_clear_is_held(content: bytes) -> None:
    assert condensed(content) is None
    told = Change("yarn.lock", Kind.CREATED, FileType.FILE, after_text=None)
    assert outcome(told) == "hold"


def test_in_a_cell(lab: Lab) -> None:
    many = {f"node_modules/p{n}": {"resolved": f"{INDEX}/p{n}/-/p{n}-1.tgz"} for n in range(4000)}
    (lab.ws / "package-lock.json").write_text(_npm(**many))
    assert (lab.ws / "package-lock.json").stat().st_size > 300_000
    (lab.ws / "Cargo.lock").write_text(CARGO)
    script = (
        "python3 - <<'X'\nimport json\np = json.load(open('package-lock.json'))\n"
        "p['packages']['node_modules/b'] = {{'resolved': '{}/b/-/b-2.tgz'}}\n"
        "json.dump(p, open('package-lock.json', 'w'))\nX"
    )
    for command in (
        script.format(OTHER),
        "sed -i s,registry+https,git+https, Cargo.lock",
        f"mkdir web && printf 'resolved \"{OTHER}/x.tgz\"\\n' >web/yarn.lock",
        f"printf 'resolved \"{OTHER}/x.tgz\"\\n' >x && mv x Pipfile.lock",
        "printf '\\377' >bun.lockb",
    ):
        done = lab.sh(command)
        assert done.judgement == "hold", (command, done.message, done.stderr)
        assert "lock-file" in done.message, done.message
        lab.run(lab.supervisor.discard(done.id))
    for command in (
        script.format(INDEX),
        "printf '[[package]]\\nname = \"c\"\\n' >>Cargo.lock",
        "mkdir lib && mv Cargo.lock lib/",
        f"mkdir -p node_modules && printf '{OTHER}' >node_modules/.package-lock.json",
    ):
        done = lab.sh(command, derived_from="moves")
        assert done.landed, (command, done.message, done.stderr)
