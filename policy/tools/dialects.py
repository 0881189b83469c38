# SPDX-License-Identifier: Apache-2.0
"""Turn a tool call in the words of a coding agent into one that gate 1 judges.

Pure. `normalise("codex", "apply_patch", {...}).plan(workspace=...)` is a plan for `engine.decide`.
Which tool does what is data (`defaults/agent_tools.yaml`); what an agent's own tool does in
Lockgate's words is one of a few names:

    Bash, PowerShell                     `command`; `run_in_background`
    Read, LS, Glob, Grep, ReadMany       `file_path` or `path`; `pattern`, `glob`; more in `paths`
    Write, Edit, Delete                  `file_path`; more in `paths`
    apply_patch                          the patch in `command`: its paths are read from it
    WebFetch, WebSearch                  `urls`
    Task, KillShell, Internal            a sub-agent; the end of a command; nothing outside
    Opaque                               something that no rule can look into: a person is asked

A tool that is not known becomes `AGENT:TOOL`, and one of another program (MCP) `mcp__SERVER__TOOL`,
however the agent writes it: the policy's `tools` may name them, and a person is asked otherwise.
What the call was is kept: plans of different calls have different digests.

INVARIANT (P7, tools): each parameter that may name a path counts, not the first of them alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field, RootModel, ValidationError

from policy.model import ActionPlan, Frozen, Params
from policy.values import strict_yaml
from policy.values.paths import absolute

AGENTS = ("claude", "codex", "gemini", "cursor", "vscode")
"""The agents whose tools are known."""
PROGRAMS = {"claude": "claude-code"}
"""What `lockgate connect` calls agents whose tools have another name."""
MOST_PATHS = 5_000
"""Paths of one call; one that names more is refused."""
CANONICAL = {
    "shell": "Bash",
    "powershell": "PowerShell",
    "read": "Read",
    "read_many": "ReadMany",
    "list": "LS",
    "glob": "Glob",
    "search": "Grep",
    "write": "Write",
    "edit": "Edit",
    "delete": "Delete",
    "patch": "apply_patch",
    "fetch": "WebFetch",
    "web_search": "WebSearch",
    "spawn": "Task",
    "kill": "KillShell",
    "internal": "Internal",
    "ask": "Opaque",
}
"""What tools are called in plans, by what they do."""
_CHANGES = frozenset(("write", "edit"))
_STEPS = (("old_string", "new_string", "replace_all"), ("oldString", "newString", "replaceAll"))
"""What agents call the text that goes, the one that comes, and that it goes everywhere."""
_EVERYWHERE = "expected_replacements"
_IN_PATH = frozenset(("list", "glob", "search"))
_ADDRESS = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s<>\"'`\\)\]}]+")
_FILE_ADDRESS = re.compile(r"file:(?://(?:localhost)?)?(?=/)", re.IGNORECASE)
_MCP = re.compile(r"mcp__(?P<server>.+?)__(?P<tool>.+)|MCP:(?P<cursor>.+)|mcp_(?P<gemini>.+)")
_MOST_NAME = 200

Names = tuple[str, ...]


class BadCall(ValueError):
    """A call that cannot be read; the message says why in one line. It must not run."""


class AgentTool(Frozen):
    """What a tool does, and which parameters say to what; see the file."""

    does: Literal[
        "shell", "powershell", "read", "read_many", "list", "glob", "search", "write", "edit",
        "delete", "patch", "fetch", "web_search", "spawn", "kill", "internal", "ask",
    ] = Field(alias="is")  # fmt: skip
    path: Names = ()
    command: Names = ()
    cwd: Names = ()
    background: Names = ()
    pattern: Names = ()
    glob: Names = ()
    type: Names = ()
    url: Names = ()
    url_text: Names = ()
    text: Names = ()
    ask_if: dict[str, str] = Field(default_factory=dict)
    """Parameters that make a person look (`name` or `name=value`), and why."""
    because: str = ""


class AgentTools(RootModel[dict[str, dict[str, AgentTool]]]):
    """The file `agent_tools.yaml`: tools by agent and name."""

    @staticmethod
    @lru_cache(maxsize=1)
    def default() -> AgentTools:
        """Return the tools that come with the package."""
        return strict_yaml.default(AgentTools, "agent_tools.yaml")

    def find(self, agent: str, tool: str) -> AgentTool | None:
        """Return an agent's tool, or None. Raises ValueError for an agent that is not known."""
        if agent not in self.root:
            raise ValueError(f"`{agent}` is no agent that is known; use one of {', '.join(AGENTS)}")
        return self.root[agent].get(tool)


def names_of(origin: str) -> tuple[str, ...]:
    """Return the names by which a policy file may tighten a tool that an agent called
    `AGENT:TOOL`: with the agent's name, with that of its program, and without."""
    agent, _, tool = origin.partition(":")
    return (origin, f"{PROGRAMS.get(agent, agent)}:{tool}", tool) if tool else ()


def split_name(name: str) -> tuple[str, str] | None:
    """Return agent and tool of a name `AGENT:TOOL`; None where no agent that is known begins it."""
    agent, _, tool = name.partition(":")
    known = {program: one for one, program in PROGRAMS.items()}
    agent = known.get(agent, agent)
    return (agent, tool) if tool and agent in AGENTS else None


@dataclass(frozen=True, slots=True)
class Use:
    """A tool call in Lockgate's words."""

    tool: str
    params: Params
    cwd: str | None = None
    """The directory that the call itself names, absolute or relative to where the agent stands."""
    origin: str = ""
    """`AGENT:TOOL`, as the agent called it."""

    @property
    def internal(self) -> bool:
        """Whether nothing outside the agent is touched: a hook then has no opinion."""
        return self.tool == "Internal"

    def plan(self, *, workspace: str, cwd: str | None = None, **who: Any) -> ActionPlan:
        """Return the plan; `cwd` is where the agent stands, `who` agent, role, user, intent, also.

        Raises ValidationError where a value of `who` is wrong.
        """
        place = absolute(self.cwd, cwd or workspace) if self.cwd else cwd
        said = {"derived_from": self.origin, **who}
        return ActionPlan(
            tool=self.tool, params=self.params, workspace=workspace, cwd=place, **said
        )


def normalise(agent: str, tool: str, params: Mapping[str, Any], *, server: str = "") -> Use:
    """Return an agent's tool call in Lockgate's words.

    `server` is the MCP server that the tool belongs to, where the agent says so beside the name.
    Raises BadCall for parameters that cannot be read (a hook refuses such a call), and ValueError
    for an agent that is not in AGENTS.
    """
    known = AgentTools.default().find(agent, tool)
    _readable(tool, params)
    origin = f"{agent}:{tool}"
    if not tool or len(tool) > _MOST_NAME:
        raise BadCall("the tool's name is empty or too long")
    if known is None or server:
        # A name of its own: it must not be taken for a tool of Lockgate's or of another agent.
        name = mcp_name(tool, server) if server or _MCP.fullmatch(tool) else origin[:_MOST_NAME]
        return Use(name, _unread(params), origin=origin)
    fields = dict(_fields(known, params))
    asks = tuple(why for wanted, why in known.ask_if.items() if _given(params, wanted))
    if known.because or asks:
        fields["asks"] = [*fields.get("asks", ()), *filter(None, (known.because,)), *asks]
    given: dict[str, Any] = {"tool": origin, "sha256": _digest(params)}
    if known.does in _CHANGES and (rest := _rest(known, params, fields)):
        given["with"] = rest
    fields["given"] = given
    cwd = _one(params, known.cwd, "directory")
    return Use(CANONICAL[known.does], Params(**fields), cwd, origin)


def mcp_name(tool: str, server: str = "") -> str:
    """Return the name of another program's tool as the policy compares it: `mcp__SERVER__TOOL`.

    A name without its server (`mcp_SERVER_TOOL` is not clear about it) stays as it is.
    """
    match = _MCP.fullmatch(tool)
    plain = tool
    if match is not None:
        plain = match["tool"] or match["cursor"] or match["gemini"]
        if match["gemini"] and server:
            plain = plain.removeprefix(f"{server}_")
        if match["server"] and (not server or server == match["server"]):
            return tool
        if match["server"]:  # the name says another server than the agent does: both count
            plain = f"{match['server']}__{plain}"
    return f"mcp__{server}__{plain}"[:_MOST_NAME] if server else tool


# -- parameters


def _unread(params: Mapping[str, Any]) -> Params:
    """Return the parameters of a tool that is not known; they all count for the digest."""
    try:
        return Params.model_validate(params)
    except ValidationError:
        return Params.model_validate({"given": dict(params)})


def _fields(known: AgentTool, params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    paths = [_local(text) for text in _texts(params, known.path)]
    if known.does in ("shell", "powershell"):
        command = _command(params, known.command)
        if command is not None:
            yield "command", command
        if any(params.get(name) for name in known.background):
            yield "run_in_background", True
    elif known.does == "patch":
        yield "command", _one(params, known.text, "patch")
    elif known.does in ("fetch", "web_search"):
        prose = _texts(params, known.url_text)
        found = [*_texts(params, known.url), *(u for one in prose for u in _ADDRESS.findall(one))]
        yield "urls", list(dict.fromkeys(found))
        if known.does == "fetch" and not found:
            yield "asks", ["it names no address"]
    elif known.does == "read_many":
        yield "paths", paths
    elif paths:
        yield "path" if known.does in _IN_PATH else "file_path", paths[0]
        if paths[1:]:
            yield "paths", paths[1:]
    if known.pattern:
        yield "pattern", _one(params, known.pattern, "pattern")
    globs = _texts(params, known.glob)
    if globs:
        yield "glob", globs[0]
        yield "globs", globs[1:]
    if known.type:
        yield "type", _one(params, known.type, "type of files")
    if known.does in _CHANGES:
        steps = list(_steps(params)) if len(paths) == 1 else []
        if known.does == "edit" and len(steps) == 1:
            yield from steps[0].items()
        elif steps:
            yield "edits", steps
        elif known.text:
            yield "content", "\n".join(_texts(params, known.text))


def _steps(params: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Give what an edit puts in place of what, in the order in which it does."""
    several = params.get("edits")
    for one in (params, *(several if isinstance(several, list | tuple) else ())):
        for old, new, everywhere in _STEPS if isinstance(one, Mapping) else ():
            if isinstance(one.get(old), str) and isinstance(one.get(new), str):
                count = one.get(_EVERYWHERE)
                many = isinstance(count, int) and count > 1
                yield {
                    "old_string": one[old],
                    "new_string": one[new],
                    "replace_all": bool(one.get(everywhere)) or many,
                }


def _rest(known: AgentTool, params: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that stand nowhere in a plan: a person approves them as well."""
    names = {one for one in known.path if "." not in one}
    if "content" in fields:
        names |= {one for one in known.text if "." not in one}
    if "old_string" in fields or "edits" in fields:
        names |= {"edits", _EVERYWHERE, *(name for step in _STEPS for name in step)}
    return {
        name: value
        for name, value in params.items()
        if name not in names and value not in (None, False, "", [], {})
    }


def _texts(params: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return every text that parameters of these names hold, in order, each once."""
    found: dict[str, None] = {}
    for name in names:
        for value in _reached(params, name.split(".")):
            found[value] = None
    if len(found) > MOST_PATHS:
        raise BadCall(f"it names more than {MOST_PATHS} paths; use several calls")
    return list(found)


def _reached(value: Any, steps: Sequence[str]) -> Iterator[str]:
    if isinstance(value, list | tuple):
        for one in value:
            yield from _reached(one, steps)
    elif steps:
        if isinstance(value, Mapping):
            if value.get(steps[0]) is not None:
                yield from _reached(value[steps[0]], steps[1:])
        else:
            raise BadCall(f"`{steps[0]}` is looked for in what is no object")
    elif isinstance(value, str):
        yield value
    else:
        raise BadCall("a parameter that must be text is not")


def _one(params: Mapping[str, Any], names: Sequence[str], what: str) -> str | None:
    found = _texts(params, names)
    if len(found) > 1:
        raise BadCall(f"it names more than one {what}; name one")
    return found[0] if found else None


def _command(params: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the command line; words in a list are quoted, unless they start a shell with text."""
    given = [params[name] for name in names if params.get(name) is not None]
    if len(given) > 1 and any(one != given[0] for one in given):
        raise BadCall("it names more than one command; name one")
    if not given:
        return None
    if isinstance(given[0], str):
        return given[0]
    words = given[0] if isinstance(given[0], list) else None
    if words is None or not all(isinstance(word, str) for word in words):
        raise BadCall("the command is neither text nor a list of words")
    return shlex.join(words)


def _given(params: Mapping[str, Any], wanted: str) -> bool:
    name, _, value = wanted.partition("=")
    found = params.get(name)
    return found == value if value else bool(found)


def _local(path: str) -> str:
    """Return a path; the address of a file becomes its path."""
    return _FILE_ADDRESS.sub("", path, count=1)


def _readable(tool: str, params: Mapping[str, Any]) -> None:
    try:
        json.dumps([tool, params], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BadCall("the call is not UTF-8 text, so it cannot be judged") from None
    except (TypeError, ValueError, RecursionError):
        raise BadCall("the parameters are no plain data, so they cannot be judged") from None
    if not isinstance(params, Mapping):
        raise BadCall("the parameters are no object, so they cannot be judged")


def _digest(params: Mapping[str, Any]) -> str:
    text = json.dumps(params, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
