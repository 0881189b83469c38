# SPDX-License-Identifier: Apache-2.0
"""Builtins that run a text: at once, later, or when something happens."""

from __future__ import annotations

import re
from itertools import pairwise

from policy.facts import How
from policy.model import Tier
from policy.shell import held_scripts
from policy.shell.interpreter import Shell
from policy.shell.redirects import open_for_reading
from policy.shell.state import Call
from policy.values.partial import HOLE, JOB, shown, unknown


def run_completion(shell: Shell, call: Call) -> str:
    """Run what completes words."""
    for flag, value in zip(call.args, call.args[1:], strict=False):
        if flag in ("-C", "-W"):
            shell.find(Tier.DANGER, "runs-text", f"`{call.name} {flag}` runs a text")
            shell.run_text(value)
    return HOLE


def run_eval(shell: Shell, call: Call) -> str:
    """Run words as a text."""
    words = call.args[1:] if call.args[:1] == ("--",) else call.args
    return shell.run_text(" ".join(words), call.stdin)


_ACTIVATES = re.compile(
    r"(?:^|/)(?:[\w.-]*v?env[\w.-]*|virtualenv|conda|miniconda3|anaconda3)/bin/activate$"
    r"|(?:^|/)(?:devel|devel_isolated|install|install_isolated)/(?:local_)?setup\.(?:ba|z)?sh$"
    r"|^/(?:opt|usr)/[\w./-]+$"
)
"""What tools make for a shell to source: of a virtual environment, of a ROS workspace, of the
image."""


def run_source(shell: Shell, call: Call) -> str:
    """Run a file in this shell."""
    words = call.args[1:] if call.args[:1] == ("--",) else call.args
    if not words:
        return ""
    path = words[0]
    if path in ("/dev/stdin", "/dev/fd/0", "-"):
        return shell.run_text(call.stdin if call.stdin is not None else HOLE)
    content = shell.held(path)
    shell.touch(How.RUN, path, program="source")
    if content is None and _ACTIVATES.search(path) and not unknown(path):
        shell.find(Tier.CAUTION, "script", f"`{shown(path)}` sets up an environment of the project")
        return ""
    if content is None and not unknown(path):
        held_scripts.run_script(
            shell, path, lambda text: shell.run_text(text, call.stdin), program=False
        )
        return HOLE
    if content is None:
        kind = "a path that cannot be known" if unknown(path) else f"`{shown(path)}`"
        shell.find(
            Tier.DANGER, "script", f"it runs the shell text of {kind}; only its name is known"
        )
        return HOLE
    open_for_reading(shell, path)
    kept = shell.state.args
    if len(words) > 1:
        shell.state.args = list(words[1:])
    out = shell.run_text(content, call.stdin)
    shell.state.args = kept
    return out


def run_trap(shell: Shell, call: Call) -> str:
    """Run a text when the shell gets a signal."""
    words = [argument for argument in call.args if argument not in ("--", "-p", "-l")]
    if len(words) >= 2 and words[0] == "":
        shell.find(Tier.DANGER, "processes", "it ignores signals that would end it")
    if len(words) >= 2 and words[0] not in ("-", ""):
        # a job's number in the text stands for what `$!` gave
        shell.aside(lambda: shell.run_text(words[0].replace(JOB, "$!")))
    return ""


def run_bind(shell: Shell, call: Call) -> str:
    """Run texts when keys are pressed."""
    for flag, value in pairwise(call.args):
        if flag == "-x":
            shell.find(Tier.DANGER, "runs-text", "`bind -x` runs a text when a key is pressed")
            shell.aside(lambda: shell.run_text(value.partition(":")[2]))  # noqa: B023
        elif flag == "-f":
            shell.touch(How.READ, value)
    return HOLE


def run_fc(shell: Shell, call: Call) -> str:
    """Run commands of the history again."""
    shell.find(Tier.DANGER, "runs-text", "`fc` runs commands of the history again")
    for flag, value in pairwise(call.args):
        if flag == "-e":
            shell.aside(lambda: shell.run_text(value))  # noqa: B023
    return HOLE
