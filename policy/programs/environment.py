# SPDX-License-Identifier: Apache-2.0
"""Record what variables of the environment do to the programs that follow."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.arguments import secret_files, written_files
from policy.programs.by_data import DataReader
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import unknown
from policy.values.paths import absolute

_TRUSTED_FOLDER = re.compile(
    r"^/(?:usr/(?:local/)?)?s?bin$|^/opt/[\w/.-]*bin$|/(?:node_modules/\.bin|\.?venv/bin)$"
    r"|^/(?:home/[^/]+|root)/\.(?:local|cargo|nvm|pyenv|rbenv|bun|deno)/[\w/.-]*(?:bin|shims)$|^/snap/bin$"
    r"|^/usr/local/(?:go|cuda)/bin$"
)


class EnvironmentReader(DataReader):
    """Reads settings of variables."""

    def environment(self, shell: Shell, name: str, value: str) -> None:
        """Record what setting a variable does to the programs that follow."""
        variable = self.variable(name)
        if name == "PATH":
            self._search(shell, value)
        if name == "PATH" or variable is not None:
            shell.facts.settings[name, value] = None
        if variable is None or value in variable.harmless:
            return
        shell.find(variable.tier, variable.rule, f"`{name}`: {variable.because}")
        if variable.value == "shell":
            shell.aside(lambda: shell.run_text(value))
        elif variable.value == "folders":
            for folder in value.split(":"):
                if folder and not unknown(folder):
                    shell.touch(How.RUN, folder)
        elif variable.value == "prompt":
            shell.aside(lambda: shell.words.evaluated(value))
        elif variable.value == "file":
            content = shell.held(value)
            if content is not None:
                shell.aside(lambda: shell.run_text(content))
            else:
                shell.touch(How.RUN, value)
        elif variable.value == "options":
            self.scan(shell, value.replace("\\ ", " "))
        elif variable.value == "command":
            self.scan(shell, value)

    def exported(self, shell: Shell, name: str, value: str) -> None:
        """Record what a variable does to the programs that are started with it."""
        shell.facts.settings[name, value] = None
        written_files.record(shell, name, value)
        if (variable := self.variable(name)) is not None and variable.tier is not Tier.SAFE:
            words = Call((name, *value.split()))
            secret_files.record(shell, words, None, operands=True)
            if variable.value == "options":
                outputs.record(self, shell, words)

    def _search(self, shell: Shell, value: str) -> None:
        folders = value.split(":")
        odd = []
        for folder in folders:
            full = absolute(folder, shell.state.place) if folder else shell.state.place
            if not _TRUSTED_FOLDER.search(full) or unknown(folder):
                odd.append(full)
        shell.state.search = tuple(odd)
        if odd:
            shell.find(Tier.DANGER, "environment", "`PATH`: names of programs get another meaning")
