# SPDX-License-Identifier: Apache-2.0
"""Settings that programs of the host obey without being told to landed as any other file.

npm's `script-shell` ran on the host when the person typed `npm run`. Such files are judged by what
they hold where that is possible; each refused case stands beside an honest one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy.gate1.decide import Policy, decide
from policy.gate2.judge import judge
from policy.model import (
    Access,
    ActionPlan,
    Change,
    Context,
    Decision,
    FileType,
    Kind,
    Params,
    Rights,
    Tier,
    Verdict,
    Workspace,
)
from policy.protected.paths import PathPolicy
from policy.sources.precedence import Effective
from sandbox.gates.gate1 import Gate1Answer
from sandbox.gates.host_calls import tightened
from tests.container.lab import Lab
from tests.policy.asking import bash

DECISION = Decision(
    verdict=Verdict.REPORT,
    tier=Tier.CAUTION,
    rights=Rights(workspace=Access.WRITE),
    layers=(),
    message="",
    named_deletions=("**",),
)
PATHS = PathPolicy.default()
FILE = FileType.FILE


def outcome(*changes: Change) -> str:
    """Return gate 2's outcome."""
    return judge(DECISION, changes, PATHS, workspace="/w").outcome.value


def change(path: str, before: str | None, after: str | None) -> Change:
    """Return the change of a file from one text to another; None is no file."""
    kind = Kind.MODIFIED if before is not None else Kind.CREATED
    kind = Kind.DELETED if after is None else kind
    return Change(path, kind, FILE, before_text=before, after_text=after)


HELD_BY_NAME = (
    *(".local.vimrc", ".vimprj/a.vim", ".vela.yml", ".onedev-buildspec.yml", "ci/x.gocd.yaml"),
    ".agola/config.yml",
    *(".solargraph.yml", ".nrepl.edn", ".lazygit.yml", ".p4config", ".tmuxp.yaml", "zls.json"),
    *(
        "codebuff.json",
        ".nanocoder/agents.json",
        ".container-use/environment.json",
        "smithery.yaml",
    ),
    *("Procfile", ".chef/knife.rb", ".kitchen.yml", "nixpacks.toml", ".deployment", ".do/app.yaml"),
    *("Directory.Solution.props", ".mill-jvm-opts", ".config/mill-jvm-opts", ".actrc"),
    *(".pnpmfile.cjs", ".pnpmfile.mjs", "web/.yarn/releases/yarn-4.cjs", ".yarn/plugins/p.cjs"),
    *(".hg/hgrc", "sub/.HG/hgrc", ".svn/wc.db", ".jj/repo/config.toml", ".bzr/branch/branch.conf"),
    *(
        ".gdbinit",
        ".lldbinit",
        ".pdbrc",
        ".pythonrc.py",
        ".irbrc",
        ".Rprofile",
        ".ghci",
        ".iex.exs",
    ),
    *(".mvn/extensions.xml", ".mvn/jvm.config", ".mvn/maven.config", "gradle/init.d/x.gradle"),
    *("init.gradle.kts", ".gradle/gradle.properties", "gradle/wrapper/gradle-wrapper.jar"),
    *(
        "nuget.config",
        "NuGet.Config",
        ".bazelrc",
        ".sbtopts",
        ".condarc",
        "ansible.cfg",
        "binding.gyp",
    ),
    *(".amp/settings.json", ".qwen/settings.json", ".github/instructions/x.instructions.md"),
    *(
        "mcp.json",
        ".mcp.json",
        "opencode.jsonc",
        ".roo/mcp.json",
        ".kilocode/rules/a.md",
        ".goosehints",
    ),
    *(".windsurf/rules/a.md", ".continue/config.yaml", ".aider.conf.yml", ".junie/guidelines.md"),
    *(".github/copilot-instructions.md", ".github/prompts/a.prompt.md", ".crush.json"),
    *(".vscode/c_cpp_properties.json", ".nvim.lua", ".dir-locals.el", "a.sublime-project"),
    *(
        ".zed/settings.json",
        ".vimrc",
        ".vim/plugin/a.vim",
        ".helix/languages.toml",
        "rust-analyzer.toml",
    ),
    *(
        ".envrc",
        ".envrc.",
        ".ENVRC",
        ".direnv/bin/x",
        "mise.local.toml",
        ".config/mise/conf.d/a.toml",
    ),
    *(".rtx.toml", ".bashrc", "home/.zshenv", ".config/fish/config.fish", ".profile", ".curlrc"),
    *(".lintstagedrc.mjs", "lint-staged.config.js", ".config/lefthook.yml", ".huskyrc"),
    *(".travis.yml", ".buildkite/pipeline.yml", ".woodpecker.yaml", ".forgejo/workflows/a.yml"),
    *("bitbucket-pipelines.yml", ".gitea/workflows/a.yml", "jenkinsfile", ".readthedocs.yaml"),
    *(".devcontainer/devcontainer.json", "docker-compose.override.yml", "compose.override.yaml"),
    *(
        ".in",
        ".rvmrc",
        ".rbenv-vars",
        "bin/activate-hermit",
        ".hermit/x",
        ".flox/env/manifest.toml",
    ),
    *(
        "_opam/bin/git",
        ".pkgx.yaml",
        "aqua.yaml",
        ".prototools.dev",
        ".smartcd/x",
        ".pants.bootstrap",
    ),
    *(".ropeproject/config.py", ".jedi/project.json", ".bsp/x.json", "buildServer.json", ".merlin"),
    *(".lsp/config.edn", "rust-project.json", ".lazy.lua", "omnisharp.json", ".factorypath"),
    *(".settings/org.eclipse.jdt.apt.core.prefs", "lib/Evil.run.xml", "CMakeLists.txt.user"),
    *(".idea/inspectionProfiles/Project_Default.xml", ".vs/tasks.vs.json", "Foo.csproj.user"),
    *(".ycm_extra_conf.py", ".pyre_configuration.local", "nim.cfg", "renv/activate.R", ".lintr"),
    *("tools/bazel", ".plzconfig.local", "latexmkrc", "common/git-hooks/pre-commit", ".moon/x.yml"),
    *("hk.pkl", "docker-bake.override.hcl", "Directory.Build.rsp", "before.Foo.sln.targets"),
    *(
        "profiles.clj",
        ".swiftpm/configuration/mirrors.json",
        ".puppeteerrc.cjs",
        ".ddev/config.yaml",
    ),
    *(".lando.yml", ".user.ini", "gradle/verification-metadata.xml", ".terraform/providers/x"),
    *("sitecustomize/__init__.py", "sitecustomize.pyc", "sitecustomize.cpython-311.so"),
    *("shard.override.yml", "subprojects/x.wrap", "helmfile.yaml", ".github/settings.yml"),
    *(".mergify.yml", ".github/CODEOWNERS", "render.yaml", ".goreleaser.yml", ".releaserc"),
    *(
        ".ci/x.yml",
        ".jenkins/x",
        ".ebextensions/x.config",
        ".copr/Makefile",
        ".sops.yaml",
        ".gpg-id",
    ),
    *(".claude-plugin/plugin.json", ".aiassistant/rules/a.md", ".rules", ".coderabbit.yaml"),
    *("conductor.json", ".serena/project.yml", ".taskmaster/config.json", "gemini-extension.json"),
    *(
        ".ssh/config",
        ".kube/config",
        ".gitpod.yml",
        "sitecustomize.py",
        ".config/pip/pip.conf",
        "package.json5",
    ),
)
FREE = (
    *("src/app.py", "package.json", "docs/mcp.md", "AGENTS.md", "CLAUDE.md", ".editorconfig"),
    *(".gitignore", ".dockerignore", "docker-compose.yml", "Makefile", "conftest.py", ".hgignore"),
    *("src/hooks/useThing.ts", "src/agents/a.py", ".github/dependabot.yml", ".yarn/cache/a.zip"),
    *("gradle/libs.versions.toml", "build.gradle.kts", ".idea/vcs.xml", ".vscode/extensions.json"),
    *("node_modules/a/.npmrc", "node_modules/a/binding.gyp", "compose.yml", "actions.yml"),
    *(
        "mysite/manage.py",
        "node_modules/a/.travis.yml",
        "node_modules/a/.github/workflows/ci.yml",
        "vite.config.ts",
        "eslint.config.js",
        ".taskmaster/tasks/tasks.json",
        ".specify/memory/constitution.md",
        ".serena/memories/a.md",
        ".lsp/.cache/db",
        ".pixi/envs/default/bin/x",
        "tools/bazel/BUILD",
        "setup.cfg",
        "environment.yml",
        ".pnp.cjs",
        "tests/fixtures/config.toml",
        ".yarn/install-state.gz",
        ".coveragerc",
        ".docker/php/Dockerfile",
        "robot.launch",
        "docs/build.yml",
        "tox.ini",
        ".eslintrc.json",
        ".prettierrc",
    ),
)


@pytest.mark.parametrize("path", HELD_BY_NAME)
def test_held_by_name(path: str) -> None:
    assert outcome(Change(path, Kind.CREATED, FILE)) == "hold"
    assert outcome(Change("x", Kind.RENAMED, FILE, source=path)) == "hold"
    assert outcome(Change(path, Kind.DELETED, FILE)) == "hold"


@pytest.mark.parametrize("path", FREE)
def test_what_nobody_obeys_lands(path: str) -> None:
    text = {"package.json": "{}", "robot.launch": "<launch/>"}.get(path, "")
    assert outcome(change(path, None, text)) == "land"


CONTENT: dict[str, tuple[str, str | None, str | None, str]] = {
    # path, text before, text after, the outcome
    "npm's shell": (".npmrc", "save-exact=true\n", "save-exact=true\nscript-shell=./x\n", "hold"),
    "a command of Railway's": ("railway.toml", "", '[deploy]\nstartCommand = "x"\n', "hold"),
    "a check of Railway's": ("railway.toml", "", '[deploy]\nhealthcheckPath = "/x"\n', "land"),
    "a command of Fly's": ("fly.toml", "", '[deploy]\nrelease_command = "x"\n', "hold"),
    "another app of Fly's": ("fly.toml", 'app = "a"\n', 'app = "b"\n', "hold"),
    "a machine of Fly's": (
        "fly.toml",
        'app = "a"\n',
        'app = "a"\n[[vm]]\nmemory = "1gb"\n',
        "land",
    ),
    "a script of Heroku's": ("app.json", "{}", '{"scripts": {"postdeploy": "x"}}', "hold"),
    "a plugin of Expo's": ("app.json", "{}", '{"expo": {"plugins": ["./x"]}}', "hold"),
    "a name of Expo's": ("app.json", "{}", '{"expo": {"name": "x", "icon": "./i.png"}}', "land"),
    "a hook of azd's": ("azure.yaml", "name: a\n", "name: a\nhooks:\n  x: {run: y}\n", "hold"),
    "a server of Sonar's": ("sonar-project.properties", "", "sonar.host.url=https://x\n", "hold"),
    "sources of Sonar's": ("sonar-project.properties", "", "sonar.sources=src\n", "land"),
    "a version of sbt": ("project/build.properties", "", "sbt.version=1.10.1\n", "land"),
    "a folder of sbt's": ("project/build.properties", "", "sbt.boot.directory=x\n", "hold"),
    "a version of .NET's": (
        "Directory.Packages.props",
        "<Project/>",
        '<Project><ItemGroup><PackageVersion Include="A" Version="1.2.0"/></ItemGroup></Project>',
        "land",
    ),
    "a target of .NET's": (
        "Directory.Packages.props",
        "<Project/>",
        '<Project><Target Name="x"><Exec Command="y"/></Target></Project>',
        "hold",
    ),
    "an interpreter of hatch's": (
        "pyproject.toml",
        "",
        '[tool.hatch.envs.test]\npython = "./x"\n',
        "hold",
    ),
    "a version for hatch": ("pyproject.toml", "", '[tool.hatch.envs.a]\npython = "3.12"\n', "land"),
    "npm saves exactly": (".npmrc", None, "save-exact=true\n; a comment\n", "land"),
    "npm's registry": (".npmrc", None, "registry=https://evil.invalid/\n", "hold"),
    "npm's registry that was there": (
        ".npmrc",
        "registry=https://packages.example/\n",
        "save-exact=true\nregistry=https://packages.example/\n",
        "land",
    ),
    "a scope's registry": (".npmrc", None, "@a:registry=https://evil.invalid/\n", "hold"),
    "scripts are refused": (".npmrc", None, "ignore-scripts=true\n", "land"),
    "scripts are no longer refused": (".npmrc", "ignore-scripts=true\n", "", "hold"),
    "scripts are no longer refused, said so": (
        ".npmrc",
        "ignore-scripts=true\n",
        "ignore-scripts=false\n",
        "hold",
    ),
    "settings that protected go": (".npmrc", "ignore-scripts=true\n", None, "hold"),
    "settings that did not protect go": (".npmrc", "fund=false\n", None, "land"),
    "a key in quotes": (".npmrc", None, '"script-shell"=./x\n', "hold"),
    "a key twice": (".npmrc", None, "save-exact=true\nsave-exact=false\n", "hold"),
    "another line's end": (".npmrc", None, "save-exact=true\rscript-shell=./x\r", "hold"),
    "text of two bytes a sign": (".npmrc", None, "s\0a\0v\0e\0", "hold"),
    "a byte order mark": (".npmrc", None, "\ufeffscript-shell=x\n", "hold"),
    "no UTF-8": (".npmrc", None, "save-exact=\udcff\n", "hold"),
    "an index in a virtual environment": (
        ".venv/pip.conf",
        None,
        "[global]\nindex-url=https://evil.invalid\n",
        "hold",
    ),
    "pip's patience": ("pip.conf", None, "[global]\ntimeout = 60\n", "land"),
    "yarn's program": (".yarnrc.yml", None, "yarnPath: .yarn/x.cjs\n", "hold"),
    "yarn's plugins": (".yarnrc.yml", None, "plugins:\n  - path: x.cjs\n", "hold"),
    "yarn's linker": (".yarnrc.yml", None, "nodeLinker: node-modules\n", "land"),
    "yarn's scripts stay off": (".yarnrc.yml", "enableScripts: false\n", "", "hold"),
    "an anchor": (".yarnrc.yml", None, "nodeLinker: &a pnp\nyarnPath: *a\n", "hold"),
    "a merge": (".yarnrc.yml", None, "<<: {yarnPath: x}\n", "hold"),
    "deep nesting": (".yarnrc.yml", None, "logFilters: " + "[" * 2_000 + "]" * 2_000, "hold"),
    "yarn 1's program": (".yarnrc", None, "yarn-path ./x.js\n", "hold"),
    "yarn 1's prefix": (".yarnrc", None, 'save-prefix "~"\n', "land"),
    "packages of a workspace": ("pnpm-workspace.yaml", None, "packages:\n- 'apps/*'\n", "land"),
    "packages from elsewhere": ("pnpm-workspace.yaml", None, "packages:\n- '../x'\n", "hold"),
    "builds that may run": (
        "pnpm-workspace.yaml",
        None,
        "onlyBuiltDependencies:\n- evil\n",
        "hold",
    ),
    "pnpm's overrides": ("pnpm-workspace.yaml", None, "overrides:\n  a: file:x\n", "hold"),
    "bun loads first": ("bunfig.toml", None, 'preload = ["./x.ts"]\n', "hold"),
    "bun is exact": ("bunfig.toml", None, "[install]\nexact = true\n", "land"),
    "deno's own": ("deno.json", None, '{"tasks": {"dev": "deno run a.ts"}, }', "land"),
    "deno's imports from an index": ("deno.json", None, '{"imports":{"a":"jsr:@std/a@1"}}', "land"),
    "deno's imports from a site": (
        "deno.json",
        None,
        '{"imports":{"a":"https://evil.invalid/a.ts"}}',
        "hold",
    ),
    "uv's index": ("uv.toml", None, '[[index]]\nurl = "https://evil.invalid"\n', "hold"),
    "uv's resolution": ("uv.toml", None, 'resolution = "highest"\n', "land"),
    "poetry's folder": ("poetry.toml", None, "[virtualenvs]\nin-project = true\n", "land"),
    "poetry's path": ("poetry.toml", None, '[virtualenvs]\npath = "/x"\n', "hold"),
    "cargo's wrapper": (
        ".cargo/config.toml",
        None,
        '[build]\nrustc-wrapper = "./x"\n',
        "hold",
    ),
    "cargo's runner": (
        ".cargo/config",
        None,
        '[target.x86_64-unknown-linux-gnu]\nrunner = "./x"\n',
        "hold",
    ),
    "cargo's jobs": (".cargo/config.toml", None, "[build]\njobs = 2\n", "land"),
    "a toolchain by a path": ("rust-toolchain.toml", None, '[toolchain]\npath = "/x"\n', "hold"),
    "a toolchain by its name": (
        "rust-toolchain.toml",
        None,
        '[toolchain]\nchannel = "1.80.1"\ncomponents = ["clippy"]\n',
        "land",
    ),
    "a toolchain in a word": ("rust-toolchain", "1.79.0\n", "1.80.1\n", "land"),
    "a toolchain at a path": ("rust-toolchain", None, '[toolchain]\npath = "/x"\n', "hold"),
    "texts of an application": ("i18n/global.json", None, '{"title": "Hello"}', "land"),
    "a module instead of another": ("go.work", None, "go 1.22\nreplace a => ../b\n", "hold"),
    "modules of a workspace": ("go.work", None, "go 1.22\n\nuse (\n\t./a\n\t./b\n)\n", "land"),
    "a virtual machine's agent": (
        "gradle.properties",
        "version=1.0\n",
        "version=1.0\norg.gradle.jvmargs=-javaagent:x.jar\n",
        "hold",
    ),
    "a version of gradle's project": (
        "gradle.properties",
        "version=1.0\n",
        "version=1.1\n",
        "land",
    ),
    "more memory": ("gradle.properties", None, "org.gradle.jvmargs=-Xmx2g\n", "land"),
    "a key with an escape": (
        "gradle.properties",
        None,
        "org.gradle\\u002ejvmargs=-javaagent:x\n",
        "hold",
    ),
    "a wrapper from elsewhere": (
        "gradle/wrapper/gradle-wrapper.properties",
        "distributionUrl=https\\://tools.example/distributions/gradle-8.9-bin.zip\n",
        "distributionUrl=https\\://evil.invalid/distributions/gradle-8.9-bin.zip\n",
        "hold",
    ),
    "a wrapper from another folder there": (
        "gradle/wrapper/gradle-wrapper.properties",
        "distributionUrl=https\\://tools.example/distributions/gradle-8.9-bin.zip\n",
        "distributionUrl=https\\://tools.example/who/gradle-8.9-bin.zip\n",
        "hold",
    ),
    "a wrapper that climbs": (
        "gradle/wrapper/gradle-wrapper.properties",
        "distributionUrl=https\\://tools.example/distributions/gradle-8.9-bin.zip\n",
        "distributionUrl=https\\://tools.example/distributions/..%2fx.zip\n",
        "hold",
    ),
    "a newer wrapper": (
        "gradle/wrapper/gradle-wrapper.properties",
        "distributionUrl=https\\://tools.example/distributions/gradle-8.9-bin.zip\n",
        "distributionUrl=https\\://tools.example/distributions/gradle-8.10-all.zip\n",
        "land",
    ),
    "versions of tools": (".tool-versions", None, "nodejs 20.11.1\npython 3.12.1 3.11.7\n", "land"),
    "a tool by a path": (".tool-versions", None, "nodejs path:/tmp/x\n", "hold"),
    "a version of Python": (".python-version", "3.11\n", "3.12.1\n", "land"),
    "a version that is a path": (".python-version", "3.11\n", "../../ws/x\n", "hold"),
    "a long-term version": (".nvmrc", None, "lts/iron\n", "land"),
    "bundler's path": (".bundle/config", None, '---\nBUNDLE_PATH: "vendor/bundle"\n', "land"),
    "bundler's mirror": (
        ".bundle/config",
        None,
        '---\nBUNDLE_MIRROR__HTTPS://RUBYGEMS__ORG/: "https://evil.invalid"\n',
        "hold",
    ),
    "a key behind a line's end of YAML 1.1": (
        ".yarnrc.yml",
        None,
        "{initScope: foo\u2028# , yarnPath: ./x.cjs\n}",
        "hold",
    ),
    "the same in flow, without it": (".yarnrc.yml", None, "{initScope: foo} # why\n", "land"),
    "a key behind another such end": (
        "pnpm-workspace.yaml",
        None,
        "{saveExact: foo\x85# , scriptShell: ./x.sh\n}",
        "hold",
    ),
    "a key behind a comment that ends for some": (
        "deno.json",
        None,
        '{"name": "a" // b\r, "unstable": ["x"]\n}',
        "hold",
    ),
    "lines that end as on Windows": (".npmrc", None, "save-exact=true\r\nfund=false\r\n", "land"),
    "yarn 1's second key on a line": (
        ".yarnrc",
        None,
        "save-exact true yarn-path ./x.js\n",
        "hold",
    ),
    "a text in quotes over two lines": (
        ".bundle/config",
        None,
        '---\nBUNDLE_WITH: "a\nBUNDLE_GEMFILE: x/Gemfile\nx"\n',
        "hold",
    ),
    "bundler's groups": (".bundle/config", None, '---\nBUNDLE_WITH: "a:b"\n', "land"),
    "kotlin's compiler": ("gradle.properties", None, "kotlin.native.home=./x\n", "hold"),
    "a virtual machine of kotlin's": (
        "gradle.properties",
        None,
        "kotlin.native.jvmArgs=-javaagent:./x.jar\n",
        "hold",
    ),
    "kotlin's and android's everyday": (
        "gradle.properties",
        None,
        "kotlin.code.style=official\nandroid.useAndroidX=true\nkotlin.version=2.0.0\n",
        "land",
    ),
    "deno's types from a site": (
        "deno.json",
        None,
        '{"compilerOptions": {"types": ["https://evil.invalid/a.d.ts"]}}',
        "hold",
    ),
    "deno's libraries": ("deno.json", None, '{"compilerOptions": {"lib": ["dom"]}}', "land"),
    "an environment by its name": (".venv", None, "my-project\n", "land"),
    "an environment at a path": (".venv", None, "/tmp/x\n", "hold"),
    "variables": (
        ".env",
        None,
        "# all\nDEBUG=true\nexport A_B=\"x y\"\nC='z'\nURL=postgres://a:b@c/d?e=f&g=h\nD=${A_B}/x\n",
        "land",
    ),
    "variables of programs": (".env", None, "NODE_OPTIONS=--require=./x.js\n", "hold"),
    "a path of programs": (".env", None, "export PATH=./bin\n", "hold"),
    "a program among variables": (".env", None, "A=$(id)\n", "hold"),
    "a program in quotes": (".env", None, 'A="x # $(id)"\n', "hold"),
    "a program behind a variable": (".env", None, "A=b id\n", "hold"),
    "a program in the background": (".env", None, "A=b&id\n", "hold"),
    "a version of flutter": (".fvmrc", None, '{"flutter": "3.19.0"}', "land"),
    "flutter from elsewhere": (".fvmrc", None, '{"flutterUrl": "https://x"}', "hold"),
    "pdm's environment": (".pdm-python", None, "/home/me/a/.venv/bin/python\n", "land"),
    "pdm's program": (".pdm-python", None, "./x\n", "hold"),
    "words": ("cspell.json", None, '{"version": "0.2", "words": ["a"]}', "land"),
    "words with a program": ("cspell.json", None, '{"import": ["./x.js"]}', "hold"),
    "a cradle": ("hie.yaml", None, "cradle:\n  stack:\n", "land"),
    "a cradle's program": ("hie.yaml", None, "cradle:\n  bios:\n    shell: x\n", "hold"),
    "mix phx.new": (
        ".formatter.exs",
        None,
        '[\n  import_deps: [:ecto, :phoenix],\n  subdirectories: ["priv/*/migrations"],\n'
        "  plugins: [Phoenix.LiveView.HTMLFormatter],\n"
        '  inputs: ["*.{heex,ex,exs}", "{config,lib,test}/**/*.{heex,ex,exs}"]\n]\n',
        "land",
    ),
    "elixir": (".formatter.exs", None, 'System.cmd("id", [])\n[]\n', "hold"),
    "a package of R": (
        "a.Rproj",
        None,
        "Version: 1.0\n\nRestoreWorkspace: No\nEncoding: UTF-8\n\nBuildType: Package\n",
        "land",
    ),
    "a builder of R": ("a.Rproj", None, "BuildType: Custom\nCustomScriptPath: x.sh\n", "hold"),
    "updates": (
        ".github/dependabot.yml",
        None,
        'version: 2\nupdates:\n  - package-ecosystem: "pip"\n    directory: "/"\n'
        "    schedule:\n      interval: weekly\n",
        "land",
    ),
    "updates that run code": (
        ".github/dependabot.yml",
        None,
        "version: 2\nupdates:\n- insecure-external-code-execution: allow\n",
        "hold",
    ),
    "renovate": ("renovate.json", None, '{"extends": ["config:recommended"]}', "land"),
    "renovate's merges": ("renovate.json", None, '{"automerge": true}', "hold"),
    "a site's redirects": ("netlify.toml", None, '[[redirects]]\nfrom = "/a"\nto = "/b"\n', "land"),
    "a site's build": ("netlify.toml", None, '[build]\ncommand = "x"\n', "hold"),
    "a site's rewrites": ("vercel.json", None, '{"rewrites": [{"source": "/a"}]}', "land"),
    "a site's install": ("vercel.json", None, '{"installCommand": "x"}', "hold"),
    "a deployment's hook": ("firebase.json", None, '{"hosting": {"predeploy": "x"}}', "hold"),
    "laravel's": (
        "public/.htaccess",
        None,
        "<IfModule mod_rewrite.c>\n    <IfModule mod_negotiation.c>\n"
        "        Options -MultiViews -Indexes\n"
        "    </IfModule>\n\n    RewriteEngine On\n\n    RewriteCond %{HTTP:Authorization} .\n"
        "    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n"
        "    RewriteCond %{REQUEST_FILENAME} !-d\n    RewriteCond %{REQUEST_URI} (.+)/$\n"
        "    RewriteRule ^ %1 [L,R=301]\n    RewriteRule ^ index.php [L]\n</IfModule>\n",
        "land",
    ),
    "php's first file": (".htaccess", None, "php_value auto_prepend_file x.php\n", "hold"),
    "android's programs": ("local.properties", None, "sdk.dir=./x\n", "hold"),
    "dotnet's version": ("global.json", None, '{"sdk": {"version": "8.0.100"}}', "land"),
    "dotnet's builders": ("global.json", None, '{"msbuild-sdks": {"A": "1.0"}}', "hold"),
}


@pytest.mark.parametrize("path, before, after, expected", CONTENT.values(), ids=CONTENT)
def test_judged_by_content(path: str, before: str | None, after: str | None, expected: str) -> None:
    assert outcome(change(path, before, after)) == expected
    assert outcome(change(f"sub/{path.upper()}", before, after)) == expected


def test_what_is_moved_is_judged_at_both_ends() -> None:
    shell, plain = "script-shell=./x\n", "save-exact=true\n"

    def moved(path: str, source: str, text: str) -> Change:
        return Change(path, Kind.RENAMED, FILE, source, before_text=text, after_text=text)

    assert outcome(moved(".npmrc", "notes", shell)) == "hold"
    assert outcome(moved("b/.npmrc", "a/.npmrc", plain)) == "land"
    assert outcome(moved("b", ".npmrc", "ignore-scripts=true\n")) == "hold"


def test_what_cannot_be_read_is_held() -> None:
    assert outcome(Change(".npmrc", Kind.CREATED, FILE, size=1 << 20)) == "hold"
    assert outcome(Change(".npmrc", Kind.CREATED, FileType.SYMLINK, target="x")) == "hold"
    assert outcome(Change(".npmrc", Kind.META, FILE, mode=0o644)) == "land"
    assert outcome(change(".npmrc", None, "#" + "x" * 300_000)) == "hold"


def test_in_a_cell(lab: Lab) -> None:
    (lab.ws / ".yarnrc.yml").write_text("enableScripts: false\n")
    for command, rule in (
        ("printf 'script-shell=./x\\n' >.npmrc", "npm-settings"),
        ("printf 'script-shell=./x\\n' >n && mv n .npmrc", "npm-settings"),
        ("ln -s README.md .npmrc", "npm-settings"),
        ("rm .yarnrc.yml", "yarn-settings"),
        ("mkdir old && mv .yarnrc.yml old/notes", "yarn-settings"),
        ("mkdir -p .hg && printf '[hooks]\\n' >.hg/hgrc", "other-repositories"),
        ("touch .gdbinit", "interpreter-startup"),
        ("mkdir app && printf 'A=$(id)\\n' >app/.env", "variables-of-a-shell"),
        ("mkdir -p lib && touch lib/Evil.run.xml", "editor-tasks"),
        ("mkdir .cargo && printf '[build]\\nrustc-wrapper=\"x\"\\n' >.cargo/config.toml", "cargo"),
        ("head -c 100000 /dev/zero | tr '\\0' '#' >.npmrc", "npm-settings"),
    ):
        done = lab.sh(command, derived_from="deletes")
        assert done.judgement == "hold", (command, done.message, done.stderr)
        assert rule in done.message, (command, done.message)
        lab.run(lab.supervisor.discard(done.id))
    for command in (
        "printf 'save-exact=true\\n' >.npmrc && printf '3.12\\n' >.python-version",
        "printf 'fund=false\\n' >>.npmrc",
        "mkdir web && mv .npmrc web/.npmrc && printf 'nodeLinker: pnp\\n' >>.yarnrc.yml",
        "rm -r web && mkdir .cargo && printf '[build]\\njobs=2\\n' >.cargo/config.toml",
        "mkdir .venv && printf 'x\\n' >.venv/a && printf '[metadata]\\nname = a\\n' >setup.cfg",
        "printf 'DEBUG=true\\n' >sub.env && mkdir app && mv sub.env app/.env",
    ):
        done = lab.sh(command, derived_from="deletes")
        assert done.landed, (command, done.message, done.stderr)


ASKED = (
    *("echo x > .gdbinit", "cp a .hg/hgrc", "tee .envrc < a", "touch sub/.mvn/extensions.xml"),
    *("mv a .lintstagedrc.mjs", "echo x > azure-pipelines-nightly.yml", "ln -s a mcp.json"),
)
NOT_ASKED = (
    *("echo save-exact=true > .npmrc", "mkdir -p src/hooks", "touch src/hooks/useThing.ts"),
    *("mkdir -p gradle/wrapper", "touch docs/mcp.md", "echo 3.12 > .python-version"),
    *("cat .gdbinit", "mkdir .config", "touch package.json", "sed -i s/a/b/ docs/ci.yml"),
)


@pytest.mark.parametrize("command", ASKED)
def test_gate_1_asks_by_the_same_table(command: str) -> None:
    found = bash(command)
    assert (found.verdict, found.rules[0]) == (Verdict.ASK, "executed-files")


@pytest.mark.parametrize("command", NOT_ASKED)
def test_gate_1_asks_nothing_where_gate_2_reads_or_nobody_obeys(command: str) -> None:
    assert bash(command).allowed


ON_HOST: dict[str, tuple[str, str | None, dict[str, Any], bool]] = {
    # file, its text, what the agent's own tool does to it, whether it goes on unasked
    "writes a harmless setting": (".npmrc", None, {"content": "save-exact=true\n"}, True),
    "writes another shell": (".npmrc", None, {"content": "script-shell=./x\n"}, False),
    "takes a protection away": (
        ".npmrc",
        "ignore-scripts=true\n",
        {"old_string": "ignore-scripts=true\n", "new_string": ""},
        False,
    ),
    "adds a script": (
        "package.json",
        '{"scripts": {}}',
        {"old_string": "{}", "new_string": '{"test": "vitest"}'},
        True,
    ),
    "adds a hook": (
        "package.json",
        '{"scripts": {}}',
        {"old_string": "{}", "new_string": '{"postinstall": "x"}'},
        False,
    ),
    "changes another file": ("a.txt", "a", {"old_string": "a", "new_string": "b"}, True),
}


@pytest.mark.parametrize("name, text, params, allowed", ON_HOST.values(), ids=ON_HOST)
def test_an_agents_own_file_tools_are_judged_by_content(
    tmp_path: Path, name: str, text: str | None, params: dict[str, Any], allowed: bool
) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    tool = "Write" if "content" in params else "Edit"
    plan = ActionPlan(
        tool=tool, params=Params(file_path=str(file), **params), workspace=str(tmp_path)
    )
    context = Context((Workspace(str(tmp_path)),), home="/home/me")
    policy = Policy.default()
    answer = Gate1Answer(decide(plan, context, policy), Effective(policy, PATHS))
    assert answer.decision.allowed
    assert tightened(answer, plan, context).decision.allowed == allowed
