# SPDX-License-Identifier: Apache-2.0
"""What the runner is asked to do for a plan: the command or file tool, where, with which variables.

Pure. What runs is byte for byte the text that gate 1 judged.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from policy.model import ActionPlan
from sandbox.containers.plan import HOME, READING_HOME
from sandbox.errors import BadInput

FILE_TOOLS = ("Read", "Write", "Edit", "MultiEdit", "Glob", "Grep", "LS")
LONGEST_ARGUMENT = 131_071
"""Bytes of one argument that the kernel takes (MAX_ARG_STRLEN, without the final NUL)."""
IMAGE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders of programs that no command can write; no other stands before them."""
ENVIRONMENT = {
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "LOCKGATE_SANDBOX": "1",
    "PATH": f"{IMAGE_PATH}:{HOME}/.local/bin",
    "TERM": "dumb",
    "USER": "agent",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # it would not land
}
READING = {"HOME": READING_HOME, "PATH": IMAGE_PATH}
"""What differs for a command that only reads."""
WITHOUT_NETWORK = {
    "PIP_RETRIES": "0",
    "npm_config_fetch_retries": "0",
    "YARN_HTTP_RETRY": "0",
    "UV_HTTP_RETRIES": "0",
    "CARGO_NET_RETRY": "0",
    "BUNDLE_RETRY": "0",
    "POETRY_REQUESTS_MAX_RETRIES": "0",
    "CONDA_REMOTE_MAX_RETRIES": "0",
}
"""Where a call reaches no host, a client that tries again only fails later."""
_UNJUDGED = re.compile(
    r"(?:BASH_.*|ENV|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|PATH|HOME|LD_.*|GIT_.*|"
    r"PYTHON(?:STARTUP|PATH|HOME|INSPECT|BREAKPOINT)|NODE_OPTIONS|NODE_PATH|PERL5.*|RUBYOPT|RUBYLIB|"
    r"(?:.*_)?(?:PAGER|EDITOR|BROWSER)|VISUAL|LESSOPEN|LESSCLOSE|GCONV_PATH|"
    r"XDG_(?:CONFIG|DATA)_(?:HOME|DIRS)|PYTHONUSERBASE|CURL_HOME|WGETRC|INPUTRC|JQ_LIBRARY_PATH|"
    r"RIPGREP_CONFIG_PATH|MAKEFLAGS|GREP_OPTIONS|TAR_OPTIONS|LOCKGATE_.*)\Z"
)
"""Variables that name programs or code, or that Lockgate sets itself."""
_PLAIN_TESTS = re.compile(
    r"(pytest|py\.test|jest|vitest|mocha|ava|nose2|rspec|phpunit|ctest|bats)"
    r"(?: (?:-q|-qq|-v|-vv|-x|-s|-l|-ra|-rA|--quiet|--verbose|--exitfirst|-n ?\d+|--ci"
    r"|--maxfail[= ]\d+|--tb=\w+|--durations=\d+|[\w./][\w./:-]*))*"
)
"""A run of tests by the name of the program alone, with options that leave nothing out."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def runnable(tool: str) -> bool:
    """Whether Lockgate itself can carry out a tool (others are only judged)."""
    return tool == "Bash" or tool in FILE_TOOLS


def request(
    plan: ActionPlan,
    *,
    call: str,
    exclusive: bool,
    env: Mapping[str, str] | None,
    approved: bool = False,
    tests: bool = False,
    network: bool = False,
) -> dict[str, Any]:
    """Return the runner's request for a plan. Raises BadInput.

    A call that a person `approved` gets a home without what earlier calls left there: nobody was
    shown that. One without a right to the `network` is told not to try again and again. Of one that
    runs `tests`, the runner says whether its program is the image's.
    """
    cwd = plan.cwd or plan.workspace
    usual = ENVIRONMENT if exclusive else {**ENVIRONMENT, **READING}
    offline = {} if network else WITHOUT_NETWORK
    values = {**usual, **offline, "LOCKGATE_CALL": call, **_checked(env or {})}
    base: dict[str, Any] = {"cwd": cwd, "env": values, "exclusive": exclusive}
    if approved and exclusive:
        base["fresh"] = True
    if plan.tool == "Bash":
        command = _command(plan)
        if tests and not env and (found := _PLAIN_TESTS.fullmatch(command)) is not None:
            base["vouch"] = {"program": found[1], "path": IMAGE_PATH}
        return {**base, "argv": ["bash", "-c", command]}
    if plan.tool in FILE_TOOLS:
        return {**base, "tool": plan.tool, "params": _params(plan, cwd)}
    raise BadInput(f"tool `{plan.tool}` is judged, but not run by Lockgate")


def with_programs(request: dict[str, Any], folders: Sequence[str]) -> dict[str, Any]:
    """Return a request whose command finds programs in these folders first.

    They are a toolchain's, which no command can write. Whether its tests' program is the image's
    is not asked then.
    """
    if not folders or "PATH" not in request.get("env", {}):
        return request
    path = ":".join((*folders, request["env"]["PATH"]))
    rest = {key: value for key, value in request.items() if key != "vouch"}
    return {**rest, "env": {**request["env"], "PATH": path}}


def _command(plan: ActionPlan) -> str:
    command = plan.params.command
    if command is None:
        raise BadInput("a Bash call needs `command`")
    if "\0" in command:
        raise BadInput("the command holds a NUL byte, which no program can be given; remove it")
    size = len(command.encode())
    if size > LONGEST_ARGUMENT:
        raise BadInput(
            f"the command is {size} bytes long, the kernel takes {LONGEST_ARGUMENT}; "
            "write it to a file in the workspace and run that"
        )
    return command


def _params(plan: ActionPlan, cwd: str) -> dict[str, Any]:
    params = plan.params.model_dump(mode="json", by_alias=True, exclude_none=True)
    for key in ("file_path", "path"):
        value = params.get(key)
        if value is None:
            continue
        if "\0" in value:
            raise BadInput(f"`{key}` holds a NUL byte; remove it")
        params[key] = posixpath.join(cwd, value)
    needs = {"Read": "file_path", "Glob": "pattern", "Grep": "pattern"}
    name = needs.get(plan.tool, "" if plan.tool == "LS" else "file_path")
    if name and not params.get(name):
        raise BadInput(f"a {plan.tool} call needs `{name}`")
    return params


def _checked(env: Mapping[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not _NAME.match(name):
            raise BadInput(f"`{name}` is no name of an environment variable")
        if "\0" in value:
            raise BadInput(f"the value of `{name}` holds a NUL byte; remove it")
        if _UNJUDGED.match(name):
            raise BadInput(
                f"`{name}` makes programs run what gate 1 has not read; set it in the command"
            )
    return dict(env)
