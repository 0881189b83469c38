# SPDX-License-Identifier: Apache-2.0
"""Entries are put into people's files and taken out again; nothing else in them changes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.connect import json_edit as jsontext
from sandbox.connect import toml_edit as tomltext
from sandbox.connect.agents import MODES, Mode, wanted
from sandbox.connect.edits import JsonFile, Places
from sandbox.connect.texts import BadFile, with_ours, without_ours

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
LAYOUTS = st.sampled_from([None, 1, 2, 4, "\t"])
REMARKS = ["// first", "/* second, */", "// third"]


@given(OBJECTS, LAYOUTS, st.lists(KEYS, min_size=1, max_size=3), VALUES)
def test_a_value_is_put_in_and_the_rest_stays(
    said: dict[str, Any], indent: Any, path: list[str], value: Any
) -> None:
    text = json.dumps(said, indent=indent, ensure_ascii=False)
    if any(not isinstance(_at(said, path[:n]), dict) for n in range(1, len(path))
           if _at(said, path[:n]) is not None or _there(said, path[:n])):  # fmt: skip
        with pytest.raises(jsontext.BadJson):
            jsontext.put(text, path, value)
        return
    wanted_: dict[str, Any] = json.loads(text)
    node = wanted_
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
    new = jsontext.put(text, path, value)
    assert json.loads(new) == wanted_
    if not _there(said, path[:1]):
        assert jsontext.cut(new, path[:1]) == text


def _there(said: Any, path: list[str]) -> bool:
    for key in path:
        if not isinstance(said, dict) or key not in said:
            return False
        said = said[key]
    return True


def _at(said: Any, path: list[str]) -> Any:
    for key in path:
        said = said.get(key) if isinstance(said, dict) else None
    return said


@given(OBJECTS, LAYOUTS, st.integers(0, 3))
def test_a_member_is_cut_and_the_rest_stays(said: dict[str, Any], indent: Any, number: int) -> None:
    if not said:
        return
    key = list(said)[number % len(said)]
    text = json.dumps(said, indent=indent, ensure_ascii=False)
    left = {one: value for one, value in said.items() if one != key}
    assert json.loads(jsontext.cut(text, [key])) == left


@given(st.lists(VALUES, min_size=1, max_size=4), LAYOUTS, st.integers(0, 3))
def test_an_item_is_cut_and_the_rest_stays(said: list[Any], indent: Any, number: int) -> None:
    at = number % len(said)
    text = json.dumps({"a": said}, indent=indent)
    assert json.loads(jsontext.cut(text, ["a"], at)) == {"a": said[:at] + said[at + 1 :]}


COMMENTED = f"""{{
  {REMARKS[0]}
  "a": [1, 2,], {REMARKS[1]}
  "b": {{}}, {REMARKS[2]}
}}
"""


def test_comments_and_commas_at_the_end_stay() -> None:
    new = jsontext.append(COMMENTED, ["b", "list"], {"x": 1})
    new = jsontext.put(new, ["c", "d"], True)
    assert all(remark in new for remark in REMARKS)
    assert jsontext.parse(new).value == {"a": [1, 2], "b": {"list": [{"x": 1}]}, "c": {"d": True}}
    back = jsontext.cut(jsontext.cut(new, ["c"]), ["b", "list"])
    assert back == COMMENTED


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "line 1: "),
        ('{\n"a": 1\n"b": 2}', "line 3: `,` or `}` is missing"),
        ('{"a": nope}', "line 1: `nope` is no value"),
        ('{"a" 1}', "line 1: `:` is missing"),
        ("{} {}", "line 1: there is more behind the value"),
        ("[" * 500, "line 1: it is nested too deep"),
        ("{1: 2}", "line 1: a key must be a text"),
    ],
)
def test_what_is_no_json_is_said_with_its_line(text: str, line: str) -> None:
    with pytest.raises(jsontext.BadJson, match=line.replace("{", r"\{").replace("}", r"\}")):
        jsontext.parse(text)


TOML = 'model = "m"  # mine\n\n[features]  # also mine\nweb = true\n\n[other]\na = 1\n'
NEW: dict[tuple[str, ...], dict[str, Any]] = {
    (): {"sandbox": "read-only"},
    ("features",): {"shell": False},
    ("servers", "lock gate"): {"command": 'a "b" \\ \x07 ü', "args": ["x"], "seconds": 3.5},
}


@pytest.mark.parametrize(
    "text", ["", TOML, TOML.replace("\n", "\r\n"), "features.web = true\n", '["features"]\n', "a=1"]
)
def test_tables_get_keys_and_lose_them_again(text: str) -> None:
    new = tomltext.with_values(text, NEW)
    said = tomllib.loads(new)
    assert said["sandbox"] == "read-only"
    assert said["features"]["shell"] is False
    assert said["servers"]["lock gate"] == NEW["servers", "lock gate"]
    assert tomltext.with_values(new, NEW) == new
    back = tomltext.without(new)
    assert back == text if text.endswith("\n") or not text else back == text + "\n"


def test_a_key_that_a_person_set_otherwise_is_not_overwritten() -> None:
    with pytest.raises(tomltext.BadToml, match=r"`features\.shell` is True already"):
        tomltext.with_values("[features]\nshell = true\n", NEW)


def test_a_table_in_a_line_is_refused() -> None:
    with pytest.raises(tomltext.BadToml, match="write it as a table"):
        tomltext.with_values("features = {web = true}\n", NEW)


# -- the agents' files

PLACES = Places(Path("/home/me"), Path("/home/me/work"), ("/opt/lockgate",))
ALL = [(agent, mode) for agent, modes in MODES.items() for mode in modes]
THEIRS = """{
  // the person's own
  "hooks": {
    "PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "fmt"}]}],
  },
  "mcpServers": {"other": {"command": "x"}},
  "permissions": {"deny": ["Bash", "Read(./secret)"]},
  "version": 1,
}
"""


@pytest.mark.parametrize(("agent", "mode"), ALL)
@pytest.mark.parametrize("scope", ["project", "user"])
def test_connecting_twice_changes_nothing_and_removing_restores(
    agent: str, mode: Mode, scope: str
) -> None:
    places = PLACES if scope == "project" else Places(PLACES.home, None, PLACES.program)
    for file in wanted(agent, mode, places).files:
        text = THEIRS if isinstance(file, JsonFile) else ""
        once, added = with_ours(agent, file, text)
        assert once != text
        assert with_ours(agent, file, once)[0] == once
        back = without_ours(agent, file, once, added)
        assert (back or "") == text


@pytest.mark.parametrize(("agent", "mode"), ALL)
def test_removing_from_an_edited_file_leaves_what_is_not_ours(agent: str, mode: Mode) -> None:
    for file in wanted(agent, mode, PLACES).files:
        if not isinstance(file, JsonFile):
            continue
        new, added = with_ours(agent, file, THEIRS)
        edited = jsontext.put(new, ["later"], {"by": "a person"})
        edited = edited.replace('"timeout": 1800', '"timeout": 77')
        back = without_ours(agent, file, edited, added)
        assert back is not None
        said = jsontext.parse(back).value
        assert said.pop("later") == {"by": "a person"}
        assert said == jsontext.parse(THEIRS).value
        assert "// the person's own" in back


def test_a_handler_beside_ours_in_one_group_stays() -> None:
    (file,) = wanted("claude-code", Mode.HOOKS, PLACES).files
    new, added = with_ours("claude-code", file, "{}")
    said = json.loads(new)
    theirs = {"type": "command", "command": "mine"}
    said["hooks"]["PreToolUse"][0]["hooks"].append(theirs)
    back = without_ours("claude-code", file, json.dumps(said), added)
    assert json.loads(back or "") == {
        "hooks": {"PreToolUse": [{"matcher": "*", "hooks": [theirs]}]}
    }


def test_a_denied_tool_of_the_persons_own_stays_denied() -> None:
    file = wanted("claude-code", Mode.MCP, PLACES).files[1]
    new, added = with_ours("claude-code", file, THEIRS)
    edited = jsontext.put(new, ["later"], 1)
    back = without_ours("claude-code", file, edited, added)
    assert jsontext.parse(back or "").value["permissions"] == {"deny": ["Bash", "Read(./secret)"]}


def test_a_file_that_cannot_be_read_is_not_written() -> None:
    (file,) = wanted("gemini", Mode.HOOKS, PLACES).files
    with pytest.raises(BadFile, match=r"line 1: "):
        with_ours("gemini", file, "{broken")
    with pytest.raises(BadFile, match="`hooks` is no object"):
        with_ours("gemini", file, '{"hooks": 1}')


def test_no_command_for_cursor_holds_an_address() -> None:
    for file in wanted("cursor", Mode.HOOKS, PLACES).files:
        assert "://" not in with_ours("cursor", file, "")[0]


def test_each_gate_blocks_where_its_program_fails() -> None:
    (claude,) = wanted("claude-code", Mode.HOOKS, PLACES).files
    said = json.loads(with_ours("claude-code", claude, "")[0])["hooks"]
    for event in ("PreToolUse", "UserPromptSubmit", "PreSkillShellCommand"):
        assert said[event][0]["hooks"][0]["onFailure"] == "block"
    (cursor,) = wanted("cursor", Mode.HOOKS, PLACES).files
    said = json.loads(with_ours("cursor", cursor, "")[0])["hooks"]
    for event in ("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile"):
        assert said[event][0]["failClosed"] is True


@pytest.mark.parametrize("agent", ["gemini", "cursor", "claude-code", "vscode"])
def test_a_server_of_our_name_that_a_person_wrote_is_never_taken_for_ours(agent: str) -> None:
    for mode in MODES[agent]:
        for file in wanted(agent, mode, PLACES).files:
            if not isinstance(file, JsonFile):
                continue
            for key in ("mcpServers", "servers"):
                text = json.dumps({key: {"lockgate": {"command": "mine"}}})
                assert without_ours(agent, file, text, None) == text
                if any(edit.path == (key, "lockgate") for edit in file.edits):
                    with pytest.raises(BadFile, match=r"lockgate` is there already; take it out"):
                        with_ours(agent, file, text)
                    ours = {"command": "/elsewhere/lockgate", "args": ["mcp", "--watch"]}
                    text = json.dumps({key: {"lockgate": ours}})
                    without = without_ours(agent, file, text, None)
                    assert json.loads(without or "") == {key: {}}


def test_an_empty_list_of_a_persons_stays_where_nothing_of_ours_was_in_it() -> None:
    (file,) = wanted("gemini", Mode.HOOKS, PLACES).files
    text = '{"hooks": {"BeforeTool": [], "Other": []}}'
    assert without_ours("gemini", file, text, None) == text
    new, added = with_ours("gemini", file, text)
    assert without_ours("gemini", file, new, added) == text


def test_a_block_whose_end_was_deleted_takes_no_line_of_a_persons_along() -> None:
    text = f"{tomltext.BEGIN}\nmine = 1\n"
    new = tomltext.with_values(text, {("features",): {"shell_tool": False}})
    assert tomllib.loads(new) == {"mine": 1, "features": {"shell_tool": False}}
    assert tomltext.without(new) == text


MINE = f"{tomltext.BEGIN}\nmine = 1\n[features]\n{tomltext.END}\n"
STRINGS = {
    "a text of several lines": f'a = """\n{MINE}"""\n',
    "with quotes at its end": f'a = """\n{MINE}"""""\n',
    "with quotes that are written out": f'a = """ \\""" \n{MINE}\\\\"""\n',
    "a literal one": f"a = '''\n{MINE}\\'''\n",
    "behind what only looks like a quote": (
        f"# it's\na = '\"\"\"'\nb = \"#'''\"\nc = '''\n{MINE}'''\n"
    ),
    "between others": f'a = """x"""\nb = """\n{MINE}"""\nc = [\n"""\n{MINE}""",\n]\n',
    "with a table of its own behind it": f'a = """\n{MINE}"""\n\n[features]\nweb = true\n',
}


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
def test_marks_in_a_text_of_a_persons_are_left_alone(text: str) -> None:
    before = tomllib.loads(text)
    assert tomltext.without(text) == text
    values: dict[tuple[str, ...], dict[str, Any]] = {
        (): {"web_search": "disabled"},
        ("features",): {"shell_tool": False},
        ("mcp_servers", "lockgate"): {"command": "x"},
    }
    new = tomltext.with_values(text, values)
    said = tomllib.loads(new)
    assert {one: said.get(one) for one in "abc"} == {one: before.get(one) for one in "abc"}
    assert said["features"]["shell_tool"] is False
    assert tomltext.with_values(new, values) == new
    assert tomltext.without(new) == text


def test_marks_around_what_cannot_be_ours_are_refused() -> None:
    text = f"a = [\n{tomltext.BEGIN}\n1, 2,\n{tomltext.END}\n]\n"
    assert tomllib.loads(text) == {"a": [1, 2]}
    with pytest.raises(tomltext.BadToml, match="line 2: what stands between these marks"):
        tomltext.without(text)
