# SPDX-License-Identifier: Apache-2.0
"""Calls as coding agents write them, and gate 1's answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.gate1.decide import Policy, decide
from policy.model import Context, Decision, Verdict, Workspace
from policy.rules.matching import Tools
from policy.tools import dialects as agent_tools
from policy.tools.dialects import AGENTS, AgentTools, BadCall, mcp_name, normalise

HERE = "/srv/project"
CONTEXT = Context((Workspace(HERE),), home="/home/me")
ALLOW, REPORT, ASK, DENY = Verdict
MOVED = "*** Begin Patch\n*** Update File: tmp1\n*** Move to: {}\n@@\n-a\n+b\n*** End Patch\n"


def asked(agent: str, tool: str, params: dict[str, Any], policy: Policy | None = None,
          server: str = "") -> Decision:  # fmt: skip
    use = normalise(agent, tool, params, server=server)
    return decide(use.plan(workspace=HERE), CONTEXT, policy or Policy.default())


def patch(*heads: str) -> dict[str, Any]:
    return {"command": "\n".join(["*** Begin Patch", *heads, "@@", "-a", "+b", "*** End Patch"])}


CASES: dict[str, tuple[str, str, dict[str, Any], Verdict]] = {
    # Claude Code
    "claude runs a reader": ("claude", "Bash", {"command": "ls"}, ALLOW),
    "claude deletes a tree": ("claude", "Bash", {"command": "rm -rf src"}, DENY),
    "claude turns its sandbox off": (
        "claude", "Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, ASK),
    "claude watches a file": ("claude", "Monitor", {"command": "tail -f x.log"}, ALLOW),
    "claude watches with a deletion": ("claude", "Monitor", {"command": "rm -rf src"}, DENY),
    "PowerShell is looked at": ("claude", "PowerShell", {"command": "ls"}, ASK),
    "PowerShell deletes": (
        "claude", "PowerShell", {"command": "Remove-Item -Recurse -Force C:/"}, DENY),
    "claude reads": ("claude", "Read", {"file_path": f"{HERE}/a.py"}, ALLOW),
    "claude reads a key": ("claude", "Read", {"file_path": "/home/me/.ssh/id_rsa"}, DENY),
    "claude writes": ("claude", "Write", {"file_path": "a.py", "content": "x"}, REPORT),
    "claude writes a waiver": (
        "claude", "Write", {"file_path": ".devkit-waiver.yml", "content": "x"}, DENY),
    "claude edits": ("claude", "Edit", {"file_path": "a", "old_string": "", "new_string": ""},
                     REPORT),
    "an older claude edits": ("claude", "MultiEdit", {"file_path": "a", "edits": []}, REPORT),
    "claude edits a notebook": (
        "claude", "NotebookEdit", {"notebook_path": "a.ipynb", "new_source": "x"}, REPORT),
    "a notebook is no way to a waiver": (
        "claude", "NotebookEdit", {"notebook_path": ".devkit-waiver.yml", "new_source": ""}, DENY),
    "claude searches": ("claude", "Grep", {"pattern": "rm -rf", "glob": "*.py"}, ALLOW),
    "claude searches a secret": ("claude", "Grep", {"pattern": ".", "path": ".env"}, DENY),
    "claude searches secrets by a glob": ("claude", "Grep", {"pattern": ".", "glob": ".env*"},
                                          DENY),
    "claude leaves secrets out": ("claude", "Grep", {"pattern": ".", "glob": "!.env"}, ALLOW),
    "claude lists": ("claude", "Glob", {"pattern": "**/*.py"}, ALLOW),
    "claude fetches a page": ("claude", "WebFetch", {"url": "https://example.com/a"}, ALLOW),
    "claude fetches nothing": ("claude", "WebFetch", {}, ASK),
    "claude fetches from this machine": ("claude", "WebFetch", {"url": "http://localhost:80"}, ASK),
    "claude fetches from the network here": (
        "claude", "WebFetch", {"url": "http://192.168.1.1/"}, ASK),
    "claude fetches a machine's credentials": (
        "claude", "WebFetch", {"url": "http://169.254.169.254/latest"}, DENY),
    "an address as one number": ("claude", "WebFetch", {"url": "http://2852039166/"}, DENY),
    "an address as an old number": ("claude", "WebFetch", {"url": "http://0251.0376.43518/"}, DENY),
    "an address within another": (
        "claude", "WebFetch", {"url": "http://[::ffff:169.254.169.254]/"}, DENY),
    "claude fetches a key": ("claude", "WebFetch", {"url": "file:///home/me/.ssh/id_rsa"}, DENY),
    "an address with a password": ("claude", "WebFetch", {"url": "https://a:b@example.com/"}, ASK),
    "an address with a long word of data": (
        "claude", "WebFetch", {"url": "https://x.example/?d=aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgMTIz"},
        ASK),
    "an address with a long query": (
        "claude", "WebFetch", {"url": "https://x.example/?q=" + "a+word+" * 20}, ASK),
    "a host's name with data": (
        "claude", "WebFetch", {"url": f"https://{'a1b2c3d4e5' * 4}.x.example/"}, ASK),
    "an address with a short query": (
        "claude", "WebFetch", {"url": "https://blog.example/post?id=123&page=2"}, ALLOW),
    "an address of many words": (
        "claude", "WebFetch",
        {"url": "https://blog.example/2024/05/how-to-write-tests-that-do-not-fail-at-night-part-2"},
        ALLOW),
    "where programmers read": (
        "claude", "WebFetch",
        {"url": "https://docs.python.org/3/library/?highlight=" + "a1" * 40}, ALLOW),
    "a name like one where programmers read": (
        "claude", "WebFetch", {"url": "https://evilpython.org/?d=" + "a1" * 40}, ASK),
    "claude searches the web": ("claude", "WebSearch", {"query": "x"}, ALLOW),
    "claude starts a sub-agent": ("claude", "Agent", {"description": "x", "prompt": "y"}, ALLOW),
    "claude starts one elsewhere": ("claude", "Agent", {"isolation": "remote"}, ASK),
    "an older claude starts one": ("claude", "Task", {"description": "x"}, ALLOW),
    "claude keeps a list": ("claude", "TodoWrite", {"todos": [1]}, ALLOW),
    "claude runs a script of its own": ("claude", "Workflow", {"script": "x"}, ASK),
    "nobody knows the tool": ("claude", "Frobnicate", {"x": 1}, ASK),
    "nobody knows the server": ("claude", "mcp__github__create_issue", {"title": "x"}, ASK),
    "a tool of another agent": ("claude", "run_shell_command", {"command": "ls"}, ASK),
    # Codex
    "codex runs a reader": ("codex", "Bash", {"command": "ls"}, ALLOW),
    "codex runs words": ("codex", "shell", {"command": ["bash", "-lc", "rm -rf src"]}, DENY),
    "codex runs elsewhere": ("codex", "exec_command", {"cmd": "cat x", "workdir": "/etc"}, ASK),
    "codex types into a program": ("codex", "write_stdin", {"chars": "x"}, ASK),
    "a patch adds": ("codex", "apply_patch", patch("*** Add File: a.py"), REPORT),
    "a patch changes": ("codex", "apply_patch", patch("*** Update File: a.py"), REPORT),
    "a patch deletes": ("codex", "apply_patch", patch("*** Delete File: a.py"), ASK),
    "a patch moves": ("codex", "apply_patch", {"command": MOVED.format("b.py")}, REPORT),
    "a patch moves onto a waiver": (
        "codex", "apply_patch", {"command": MOVED.format("./sub/../.DevKit-Waiver.yml")}, DENY),
    "a patch moves a waiver away": (
        "codex", "apply_patch",
        patch("*** Update File: .devkit-waiver.yml", "*** Move to: x"), DENY),
    "the second file of a patch counts": (
        "codex", "apply_patch", patch("*** Add File: a", "+x", "*** Update File: /etc/hosts"),
        DENY),
    "blanks hide no head": ("codex", "apply_patch", patch("  *** delete  file :  a.py "), ASK),
    "a patch writes a hook of git": (
        "codex", "apply_patch", patch("*** Add File: .git/hooks/pre-commit"), ASK),
    "git's form of a patch": (
        "codex", "apply_patch", {"command": "--- a/x\n+++ b/devkit.config.json\n@@ -1 +1 @@\n"},
        DENY),
    "git's deletion": (
        "codex", "apply_patch", {"command": "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"}, ASK),
    "git's renaming": (
        "codex", "apply_patch",
        {"command": "rename from a\nrename to devkit.config.json\n"}, DENY),
    "no patch at all": ("codex", "apply_patch", {"command": "hello"}, ASK),
    "an empty patch": ("codex", "apply_patch", {}, ASK),
    "codex keeps a plan": ("codex", "update_plan", {"plan": []}, ALLOW),
    # Gemini CLI
    "gemini runs a reader": ("gemini", "run_shell_command", {"command": "ls"}, ALLOW),
    "gemini runs in a folder": (
        "gemini", "run_shell_command", {"command": "ls", "dir_path": "src"}, ALLOW),
    "gemini runs above": (
        "gemini", "run_shell_command", {"command": "ls", "dir_path": "../.."}, ASK),
    "gemini writes from a folder": (
        "gemini", "run_shell_command", {"command": "echo > devkit.config.json", "dir_path": "a"},
        DENY),
    "gemini writes": ("gemini", "write_file", {"file_path": "a", "content": "x"}, REPORT),
    "gemini replaces": ("gemini", "replace", {"file_path": "devkit.config.json"}, DENY),
    "gemini reads": ("gemini", "read_file", {"file_path": "a"}, ALLOW),
    "an older gemini reads a key": (
        "gemini", "read_file", {"absolute_path": "/home/me/.aws/credentials"}, DENY),
    "gemini reads many": ("gemini", "read_many_files", {"include": ["**/*.py", "docs/**"]}, ALLOW),
    "gemini reads a secret among many": (
        "gemini", "read_many_files", {"include": ["**/*.py", ".env"]}, DENY),
    "gemini reads many elsewhere": ("gemini", "read_many_files", {"paths": ["/etc/*"]}, ASK),
    "gemini reads nothing": ("gemini", "read_many_files", {}, ASK),
    "gemini lists": ("gemini", "list_directory", {"dir_path": "."}, ALLOW),
    "gemini lists elsewhere": ("gemini", "list_directory", {"dir_path": "/opt"}, ASK),
    "gemini searches elsewhere": ("gemini", "grep_search", {"pattern": "x", "dir_path": "/opt"},
                                  ASK),
    "gemini fetches": ("gemini", "web_fetch", {"prompt": "sum up https://example.com/a"}, ALLOW),
    "gemini fetches from here": (
        "gemini", "web_fetch", {"prompt": "https://example.com and http://127.0.0.1/x"}, ASK),
    "gemini remembers": ("gemini", "save_memory", {"fact": "x"}, ASK),
    # Cursor
    "cursor runs a reader": ("cursor", "Shell", {"command": "ls", "cwd": HERE}, ALLOW),
    "cursor deletes": ("cursor", "Delete", {"path": "a.py"}, ASK),
    "cursor deletes a waiver": ("cursor", "Delete", {"path": ".devkit-waiver.yml"}, DENY),
    "cursor reads": ("cursor", "Read", {"file_path": "a.py"}, ALLOW),
    "each name of a path counts": (
        "cursor", "Read", {"path": "a.py", "file_path": "/home/me/.ssh/id_rsa"}, DENY),
    "cursor edits": (
        "cursor", "Write", {"file_path": "a.py", "edits": [{"new_string": "x"}]}, REPORT),
    # VS Code
    "vscode runs a reader": ("vscode", "run_in_terminal", {"command": "ls"}, ALLOW),
    "vscode writes": ("vscode", "create_file", {"filePath": f"file://{HERE}/a"}, REPORT),
    "vscode edits": ("vscode", "editFiles", {"files": ["src/main.ts"]}, REPORT),
    "vscode edits one of several": (
        "vscode", "multi_replace_string_in_file",
        {"replacements": [{"filePath": "a"}, {"filePath": "devkit.config.json"}]}, DENY),
    "vscode reads": ("vscode", "read_file", {"filePath": "a"}, ALLOW),
    "vscode fetches": ("vscode", "fetch_webpage", {"urls": ["https://example.com/"]}, ALLOW),
    "vscode fetches from here": (
        "vscode", "fetch_webpage", {"urls": ["https://example.com/", "http://10.0.0.1"]}, ASK),
    "vscode runs a task": ("vscode", "create_and_run_task", {"task": {"command": "ls"}}, ASK),
}  # fmt: skip


@pytest.mark.parametrize(("agent", "tool", "params", "verdict"), CASES.values(), ids=CASES)
def test_a_call_of_an_agent(
    agent: str, tool: str, params: dict[str, Any], verdict: Verdict
) -> None:
    assert asked(agent, tool, params).verdict is verdict


BAD: dict[str, tuple[str, Any]] = {
    "a path that is a number": ("Read", {"file_path": 7}),
    "a path within an object": ("Read", {"file_path": {"x": "a"}}),
    "no object": ("Read", ["a"]),
    "half a character": ("Read", {"file_path": "\ud800"}),
    "a command that is a number": ("Bash", {"command": 7}),
    "words that are numbers": ("Bash", {"command": ["ls", 7]}),
    "no plain data": ("Read", {"file_path": object()}),
    "no name": ("", {}),
}


@pytest.mark.parametrize(("tool", "params"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_is_refused_in_one_line(tool: str, params: Any) -> None:
    with pytest.raises(BadCall) as refused:
        normalise("claude", tool, params)
    assert "\n" not in str(refused.value)


def test_two_different_commands_are_refused() -> None:
    with pytest.raises(BadCall, match="more than one command"):
        normalise("codex", "exec_command", {"cmd": "ls", "command": "rm x"})


def test_an_agent_that_is_not_known_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="`emacs` is no agent that is known"):
        normalise("emacs", "Bash", {"command": "ls"})


@pytest.mark.parametrize(
    ("tool", "server", "name"),
    [
        ("mcp__github__create_issue", "", "mcp__github__create_issue"),
        ("mcp__github__create_issue", "github", "mcp__github__create_issue"),
        ("mcp_github_create_issue", "github", "mcp__github__create_issue"),
        ("mcp_github_create_issue", "", "mcp_github_create_issue"),
        ("MCP:create_issue", "github", "mcp__github__create_issue"),
        ("create_issue", "github", "mcp__github__create_issue"),
        ("mcp__good__read", "bad", "mcp__bad__good__read"),
    ],
)
def test_tools_of_other_programs_have_one_name(tool: str, server: str, name: str) -> None:
    assert mcp_name(tool, server) == name


def test_a_server_has_no_tool_of_the_agent_itself() -> None:
    assert asked("claude", "Read", {"file_path": "a"}, server="other").verdict is ASK


def named(**kinds: tuple[str, ...]) -> Policy:
    policy = Policy.default()
    return replace(policy, tools=Tools(**{**dict(policy.tools), **kinds}))


GLOBS = {
    "a tool that is allowed": ("mcp__docs__search", ALLOW),
    "a tool that is reported": ("mcp__ci__status", REPORT),
    "one of many that is asked about": ("mcp__docs__delete_page", ASK),
    "a tool that is denied": ("mcp__prod__query", DENY),
    "a tool of nobody": ("mcp__other__x", ASK),
}


@pytest.mark.parametrize(("tool", "verdict"), GLOBS.values(), ids=GLOBS)
def test_tools_by_globs(tool: str, verdict: Verdict) -> None:
    policy = named(
        allow=("mcp__docs__*", "mcp__prod__*"), report=("mcp__ci__status",),
        ask=("mcp__*__delete_*",), deny=("mcp__prod__*",),
    )  # fmt: skip
    decision = asked("claude", tool, {"q": "x"}, policy)
    assert decision.verdict is verdict
    if verdict is not ASK or "docs" in tool:
        assert decision.rules[0] == "tools"


def test_a_tool_of_files_by_its_kind() -> None:
    policy = named(write=("mcp__files__write_file",), move=("mcp__files__move_file",))

    def verdict(tool: str, **params: Any) -> Verdict:
        return asked("claude", f"mcp__files__{tool}", params, policy).verdict

    assert verdict("write_file", path="a.py", content="x") is REPORT
    assert verdict("write_file", path="devkit.config.json", content="x") is DENY
    assert verdict("write_file", paths=["a", "devkit.config.json"]) is DENY
    assert verdict("write_file", path=["a", "devkit.config.json"]) is ASK, "it has another shape"
    assert verdict("move_file", source="a", destination="b") is REPORT
    assert verdict("move_file", source="a", destination=".devkit-waiver.yml") is DENY
    assert verdict("move_file", source=".devkit-waiver.yml", destination="b") is DENY


def test_what_an_agent_calls_is_in_the_plan() -> None:
    use = normalise("codex", "apply_patch", patch("*** Add File: a"))
    plan = use.plan(workspace=HERE, cwd=f"{HERE}/sub", agent="sub:1", role="coder")
    assert (plan.derived_from, plan.agent, plan.role) == ("codex:apply_patch", "sub:1", "coder")
    assert plan.cwd == f"{HERE}/sub"
    other = normalise("codex", "apply_patch", {**patch("*** Add File: a"), "x": 1})
    assert other.plan(workspace=HERE).digest() != use.plan(workspace=HERE).digest()


def test_a_folder_that_the_call_names_counts() -> None:
    use = normalise("gemini", "run_shell_command", {"command": "ls", "dir_path": "../x"})
    assert use.plan(workspace=HERE, cwd=f"{HERE}/sub").cwd == f"{HERE}/x"


def test_an_internal_call_says_so() -> None:
    assert normalise("claude", "ExitPlanMode", {"plan": "x"}).internal
    assert not normalise("claude", "Read", {"file_path": "x"}).internal


def test_each_tool_of_the_table_is_known_to_the_policy() -> None:
    tools = AgentTools.default().root
    assert tuple(tools) == AGENTS
    kinds = {one.does for known in tools.values() for one in known.values()}
    assert kinds == set(agent_tools.CANONICAL), "each kind is used, and each has a name"
    for name in agent_tools.CANONICAL.values():
        assert Policy.default().tools.kinds(name), name


@pytest.mark.parametrize("name", ["Internal", "BashOutput", "WebSearch", "Read", "Task"])
def test_a_tool_of_another_name_space_is_not_known(name: str) -> None:
    assert asked("gemini", name, {"file_path": "a"}).verdict is ASK


def test_a_tool_of_an_agent_by_its_name() -> None:
    policy = named(allow=("claude:Frobnicate",))
    assert asked("claude", "Frobnicate", {}, policy).verdict is ALLOW
    assert asked("codex", "Frobnicate", {}, policy).verdict is ASK


BY_NAME = {
    "as connect calls it": ("claude-code:Task", "claude", "Task"),
    "as its tools are called": ("claude:Task", "claude", "Task"),
    "every tool of an agent": ("claude:*", "claude", "Task"),
    "a tool with another name in plans": ("Agent", "claude", "Agent"),
    "a tool that is not known": ("claude-code:Frobnicate", "claude", "Frobnicate"),
    "a shell": ("codex:shell", "codex", "shell"),
}


@pytest.mark.parametrize("name, agent, tool", BY_NAME.values(), ids=BY_NAME)
def test_a_tool_is_denied_and_asked_about_by_an_agents_name(
    name: str, agent: str, tool: str
) -> None:
    params = {"command": "ls", "prompt": "x"}
    assert asked(agent, tool, params).verdict in (ALLOW, ASK)  # the control
    assert asked(agent, tool, params, named(deny=(name,))).verdict is DENY
    assert asked(agent, tool, params, named(ask=(name,))).verdict is ASK
    assert asked("gemini", "read_file", {"file_path": "a"}, named(deny=(name,))).verdict is ALLOW


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NAMES = sorted({n for known in AgentTools.default().root.values() for n in known})
KEYS = ["command", "file_path", "path", "paths", "url", "urls", "files", "include", "asks", "glob"]


@given(
    st.sampled_from(AGENTS),
    st.sampled_from(NAMES) | st.text(max_size=20),
    st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), VALUES, max_size=4),
)
def test_any_call_is_decided_or_refused(agent: str, tool: str, params: dict[str, Any]) -> None:
    try:
        use = normalise(agent, tool, params)
    except BadCall:
        return
    decision = decide(use.plan(workspace=HERE), CONTEXT, Policy.default())
    if AgentTools.default().find(agent, tool) is None:
        assert decision.verdict in (ASK, DENY)
