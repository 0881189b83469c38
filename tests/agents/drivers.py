# SPDX-License-Identifier: Apache-2.0
"""Install and start the real command lines of coding agents, with a model of ours.

They are large and some are proprietary: they are installed with npm into a cache folder outside of
the repository (LOCKGATE_AGENTS names another), and never copied.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.agents.model import Model, Step
from tests.conftest import cannot_run

RUN_SECONDS = 120
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent: how it is installed and which of its tools do what."""

    name: str
    """As `lockgate connect` calls it."""
    package: str
    version: str
    program: str
    shell: str
    """Its tool for commands."""
    write: str | None
    """Its tool that writes a file, on the host."""

    def installed(self) -> Path:
        """Return its program, which is installed where it is missing."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
        root = Path(os.environ.get("LOCKGATE_AGENTS") or f"{cache}/lockgate-agents")
        folder = root / f"{self.name}-{self.version}"
        program = folder / "node_modules" / ".bin" / self.program
        if program.exists():
            return program
        npm = shutil.which("npm")
        if npm is None:
            cannot_run("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n')
        words = [npm, "install", "--no-fund", "--no-audit", f"{self.package}@{self.version}"]
        done = subprocess.run(
            words, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode or not program.exists():
            cannot_run(f"{self.package} cannot be installed: {done.stderr[-300:]}")
        return program

    def shell_step(self, command: str) -> Step:
        """Return the call that runs a command with its own tool."""
        key = "cmd" if self.shell == "exec_command" else "command"
        return Step(self.shell, {key: command})

    def file_steps(self, *paths: str) -> list[Step]:
        """Return calls that write files with its own tool, on the host."""
        if self.write is not None:
            return [Step(self.write, {"file_path": path, "content": "x"}) for path in paths]
        head, tail = "*** Begin Patch\n*** Add File: ", "\n+x\n*** End Patch\n"
        return [Step("apply_patch", f"{head}{path}{tail}") for path in paths]

    def mcp_step(self, tool: str, **params: object) -> Step:
        """Return the call of a tool of Lockgate's MCP server."""
        match self.name:
            case "claude-code":
                return Step(f"mcp__lockgate__{tool}", params)
            case "codex":
                return Step(tool, params, server="lockgate")
            case _:
                return Step(f"mcp_lockgate_{tool}", params)


CLAUDE = Agent("claude-code", "@anthropic-ai/claude-code", "2.1.332", "claude", "Bash", "Write")
CODEX = Agent("codex", "@openai/codex", "0.171.0", "codex", "exec_command", None)
GEMINI = Agent(
    "gemini", "@google/gemini-cli", "0.61.0", "gemini", "run_shell_command", "write_file"
)
AGENTS = {one.name: one for one in (CLAUDE, CODEX, GEMINI)}


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of an agent ended."""

    status: int | None
    """None: it was ended from outside."""
    out: str
    err: str


def start(
    agent: Agent, model: Model, folder: Path, env: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Start an agent in a folder with a model; `env` has HOME and Lockgate's folders."""
    home = Path(env["HOME"])
    words, more = _COMMANDS[agent.name](agent.installed(), model, home, folder)
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**env, **more, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = RUN_SECONDS) -> Ran:
    """Wait for a run; one that does not end is ended with all that it started."""
    try:
        out, err = process.communicate(timeout=seconds)
        return Ran(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Ran(None, out, err)


def _claude(
    program: Path, model: Model, home: Path, folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
    words = [str(program), "-p", "go", "--output-format", "json", "--max-turns", "12"]
    # Its own prompts are answered by its settings: what is tested stands behind them.
    words += ["--permission-mode", "bypassPermissions"] if os.geteuid() else []
    return words, {
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }


def _codex(
    program: Path, model: Model, home: Path, folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    config = home / ".codex"
    config.mkdir(exist_ok=True)
    path = config / "config.toml"
    own = (
        'model_provider = "fake"\nmodel = "gpt-5.5"\n'
        f'[projects."{folder}"]\ntrust_level = "trusted"\n'
        f'[model_providers.fake]\nname = "fake"\nbase_url = "{model.url}/v1"\n'
        'env_key = "FAKE_KEY"\nwire_api = "responses"\n'
        "request_max_retries = 0\nstream_max_retries = 0\n"
    )
    path.write_text(own)
    words = [str(program), "exec", "--skip-git-repo-check", "--json"]
    words += ["--dangerously-bypass-hook-trust", "go"]
    # It makes its helper programs in its folder, but never below the folder for temporary files;
    # without them a system's older bubblewrap starts nothing.
    temporary = home / "tmp"
    temporary.mkdir(exist_ok=True)
    return words, {"FAKE_KEY": "dummy", "CODEX_HOME": str(config), "TMPDIR": str(temporary)}


def _gemini(
    program: Path, model: Model, home: Path, folder: Path
) -> tuple[Sequence[str], Mapping[str, str]]:
    config = home / ".gemini"
    config.mkdir(exist_ok=True)
    said = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    (config / "settings.json").write_text(json.dumps(said))
    words = [str(program), "-p", "go", "-m", "gemini-2.5-pro", "--output-format", "json", "--yolo"]
    return words, {
        "GOOGLE_GEMINI_BASE_URL": model.url,
        "GEMINI_API_KEY": "dummy",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


_COMMANDS = {"claude-code": _claude, "codex": _codex, "gemini": _gemini}
