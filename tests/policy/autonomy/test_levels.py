# SPDX-License-Identifier: Apache-2.0
"""The tables, examples and rules of autonomy-levels.md."""

from __future__ import annotations

import itertools
from datetime import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.autonomy.categories import LEVELS, key, strictest_level
from policy.autonomy.levels import (
    Category,
    Level,
    LevelEffects,
    Levels,
    LevelsFile,
    QuietHours,
    classify_unknown,
    score,
    tree,
)
from policy.model import Verdict
from policy.people.reports import AuditLine, Escalation, EscalationRequest, YellowReport
from policy.values.strict_yaml import PolicyError, build, parse

GREEN, YELLOW, RED = Level
LEVEL = Levels.default()

USERS = """
# ~/kira/config/autonomy.yaml
users:
  default:
    green: [file_ops, memory, research, spawn, code_exec, canvas, self_config]
    yellow: [messages, external_api, cron, git, packages, notifications]
    red: [email, public_posts, financial, destructive, access_control, accounts, infra]
    
  otto:  # power user, trusts the agent more
    overrides:
      git: green           # git ops don't need reporting
      cron: green          # cron scheduling is free
      messages: green      # trusted to message freely
    escalation_channel: telegram
    quiet_hours: "23:00-08:00"  # suppress yellow reports during these hours
"""
AGENTS = """
agent_overrides:
  sub-agent:
    # Sub-agents are more restricted by default
    max_level: yellow          # can never do RED actions
    messages: red              # sub-agents can't message users without approval
    
  cron-agent:
    messages: yellow           # cron agents report but can message
    git: yellow                # can push but reports
    
  specialist:widget:
    max_level: green           # widget agent has no external actions anyway
"""


def file(text: str) -> LevelsFile:
    return build(LevelsFile, parse(text, "autonomy.yaml"), "autonomy.yaml")


OTTO = LEVEL.extended(file(USERS)).extended(file(AGENTS))

GREEN_TABLE = {
    "File Operations: read": ("File Operations", "read_file"),
    "File Operations: write": ("File Operations", "write_file"),
    "File Operations: edit": ("File Operations", "edit file"),
    "File Operations: create": ("File Operations", "createFile"),
    "File Operations: organize files in workspace": ("File Operations", "organize_files"),
    "Memory: update MEMORY.md": ("Memory", "Update MEMORY.md"),
    "Memory: daily files": ("Memory", "update daily files"),
    "Memory: context buffers": ("Memory", "update_context_buffers"),
    "Memory: heartbeat state": ("Memory", "update_heartbeat_state"),
    "Internal Research: web search": ("Internal Research", "Web search"),
    "Internal Research: web fetch": ("Internal Research", "web_fetch"),
    "Internal Research: reading documentation": ("Internal Research", "read_documentation"),
    "Sub-Agent Spawning: spawn sub-agents": ("Sub-Agent Spawning", "Spawn sub-agents"),
    "Sub-Agent Spawning: specialists": ("Sub-Agent Spawning", "spawn_specialists"),
    "Code Execution: git status": ("Code Execution", "git status"),
    "Code Execution: ls": ("Code Execution", "ls"),
    "Code Execution: cat": ("Code Execution", "cat"),
    "Code Execution: tests": ("Code Execution", "run_tests"),
    "Canvas: render widgets": ("Canvas", "Render widgets"),
    "Canvas: charts": ("Canvas", "render_charts"),
    "Canvas: previews": ("Canvas", "render_previews"),
    "Self-Configuration: update own prompts": ("Self-Configuration", "Update own prompts"),
    "Self-Configuration: HEARTBEAT.md": ("Self-Configuration", "update_HEARTBEAT.md"),
    "Self-Configuration: workspace files": ("Self-Configuration", "update_workspace_files"),
    "Memory Maintenance: curate memories": ("Memory Maintenance", "Curate memories"),
    "Memory Maintenance: extract facts": ("Memory Maintenance", "extract_facts"),
    "Memory Maintenance: prune outdated info": ("Memory Maintenance", "prune outdated info"),
}
YELLOW_TABLE = {
    "Sending Messages: reply in group chats": ("Sending Messages", "reply_in_group_chat"),
    "Sending Messages: DM responses": ("Sending Messages", "send_dm"),
    "External API Calls: third-party APIs": ("External API Calls", "call_api"),
    "External API Calls: webhooks": ("External API Calls", "call_webhook"),
    "Cron Scheduling: creating scheduled jobs": ("Cron Scheduling", "schedule_job"),
    "Cron Scheduling: modifying scheduled jobs": ("Cron Scheduling", "modify_cron_job"),
    "Git Operations: commit": ("Git Operations", "git_commit"),
    "Git Operations: push": ("Git Operations", "git_push"),
    "Git Operations: pull": ("Git Operations", "git_pull"),
    "Git Operations: branch operations": ("Git Operations", "git_branch"),
    "Package Installation: npm install": ("Package Installation", "npm install"),
    "Package Installation: apt install": ("Package Installation", "apt_install"),
    "Notifications: push notifications": ("Notifications", "send_push_notification"),
}
RED_TABLE = {
    "Email: sending emails on behalf of user": ("Email", "send_email"),
    "Public Posts: tweets": ("Public Posts", "post_tweet"),
    "Public Posts: blog posts": ("Public Posts", "publish_blog_post"),
    "Public Posts: forum posts": ("Public Posts", "write_forum_post"),
    "Financial: any transaction": ("Financial", "make_transaction"),
    "Financial: purchase": ("Financial", "purchase_item"),
    "Financial: subscription": ("Financial", "start_subscription"),
    "Destructive Ops: rm -rf": ("Destructive Ops", "rm -rf"),
    "Destructive Ops: database drops": ("Destructive Ops", "drop_database"),
    "Destructive Ops: account deletion": ("Destructive Ops", "delete_account"),
    "Access Control: changing permissions": ("Access Control", "change_permissions"),
    "Access Control: sharing files externally": ("Access Control", "share_file"),
    "Account Actions: login": ("Account Actions", "login"),
    "Account Actions: signup": ("Account Actions", "signup"),
    "Account Actions: password changes": ("Account Actions", "change_password"),
    "External Messaging: cold outreach": ("External Messaging", "cold_outreach"),
    "External Messaging: contacting new people": ("External Messaging", "contact_new_person"),
    "Infrastructure: server provisioning": ("Infrastructure", "provision_server"),
    "Infrastructure: DNS changes": ("Infrastructure", "change_dns_record"),
    "Infrastructure: deployments": ("Infrastructure", "deploy_production"),
}


def row(table: dict[str, tuple[str, str]], level: Level, name: str) -> None:
    title, action = table[name]
    for asked in (title, title.upper(), title.replace(" ", "_"), action):
        answer = LEVEL.level_of(asked)
        assert answer.level is level, (asked, answer)
        assert LEVEL.categories.named(title) in answer.categories


@pytest.mark.parametrize("name", GREEN_TABLE)
def test_a_row_of_green(name: str) -> None:
    row(GREEN_TABLE, GREEN, name)


@pytest.mark.parametrize("name", YELLOW_TABLE)
def test_a_row_of_yellow(name: str) -> None:
    row(YELLOW_TABLE, YELLOW, name)


@pytest.mark.parametrize("name", RED_TABLE)
def test_a_row_of_red(name: str) -> None:
    row(RED_TABLE, RED, name)


def test_levels_are_do_report_and_ask() -> None:
    answers = [LEVEL.level_of(one).verdict for one in ("memory", "git", "email")]
    assert answers == [Verdict.ALLOW, Verdict.REPORT, Verdict.ASK]


CONFIGURED = {
    "default green": (
        "default",
        GREEN,
        "file_ops memory research spawn code_exec canvas self_config",
    ),
    "default yellow": ("default", YELLOW, "messages external_api cron git packages notifications"),
    "default red": (
        "default",
        RED,
        "email public_posts financial destructive access_control accounts infra external_messaging",
    ),
    "otto's overrides": ("otto", GREEN, "git cron messages"),
    "otto's rest, yellow": ("otto", YELLOW, "external_api packages notifications"),
    "otto's rest, red": ("otto", RED, "email public_posts financial destructive infra"),
    "a user without a configuration": ("somebody", YELLOW, "git cron messages"),
}


@pytest.mark.parametrize("user, level, categories", CONFIGURED.values(), ids=CONFIGURED)
def test_the_configuration_of_users(user: str, level: Level, categories: str) -> None:
    for category in categories.split():
        assert OTTO.level_of(category, user).level is level


def test_the_channel_and_the_quiet_hours_of_a_user() -> None:
    otto = OTTO.user("otto")
    assert otto.escalation_channel == "telegram"
    assert otto.quiet_hours == QuietHours(start=time(23), end=time(8))
    assert OTTO.user("somebody").escalation_channel is None


HOURS = {
    "before they begin": ("23:00-08:00", "22:59", False),
    "when they begin": ("23:00-08:00", "23:00", True),
    "at midnight": ("23:00-08:00", "00:00", True),
    "just before they end": ("23:00-08:00", "07:59", True),
    "when they end": ("23:00-08:00", "08:00", False),
    "within one day": ("12:30-13:30", "13:00", True),
    "outside one day": ("12:30-13:30", "23:00", False),
}


@pytest.mark.parametrize("hours, at, quiet", HOURS.values(), ids=HOURS)
def test_quiet_hours(hours: str, at: str, quiet: bool) -> None:
    found = QuietHours.model_validate(hours)
    assert found.covers(time.fromisoformat(at)) is quiet
    assert found.model_dump_json() == f'"{hours}"'


@pytest.mark.parametrize("text", ["", "23-8", "24:00-08:00", "23:00", "23:60-08:00", "8:00-9:00"])
def test_wrong_quiet_hours_are_refused(text: str) -> None:
    with pytest.raises(PolicyError, match="is not a span of hours; write it as `23:00-08:00`"):
        file(f'users: {{otto: {{quiet_hours: "{text}"}}}}')


def test_quiet_hours_that_never_end_are_refused() -> None:
    with pytest.raises(PolicyError, match="quiet hours begin and end at 08:00"):
        file('users: {otto: {quiet_hours: "08:00-08:00"}}')


AGENT_ROWS: dict[str, tuple[str, str, str, Level, bool]] = {
    "a sub-agent does not send messages": ("default", "sub-agent", "messages", RED, True),
    "a sub-agent of a trusting user neither": ("otto", "sub:abc123", "messages", RED, True),
    "a sub-agent never does RED": ("default", "sub:abc123", "send_email", RED, True),
    "a sub-agent does YELLOW": ("default", "sub:abc123", "git", YELLOW, False),
    "a sub-agent does GREEN": ("default", "sub:abc123", "write_file", GREEN, False),
    "a cron agent reports its messages": ("otto", "cron-agent", "messages", YELLOW, False),
    "a cron agent pushes and reports": ("otto", "cron:nightly", "git_push", YELLOW, False),
    "a cron agent schedules freely for otto": ("otto", "cron-agent", "cron", GREEN, False),
    "a widget agent does GREEN": ("default", "specialist:widget", "canvas", GREEN, False),
    "a widget agent does no YELLOW": ("default", "specialist:widget", "git", YELLOW, True),
    "one of several widget agents neither": ("otto", "specialist:widget:2", "packages", YELLOW, True),  # noqa: E501
    "another specialist does YELLOW": ("default", "specialist:chart", "git", YELLOW, False),
    "the main agent asks for RED itself": ("default", "main", "send_email", RED, False),
    "capital letters do not help": ("default", "Sub-Agent:X", "send_email", RED, True),
}  # fmt: skip


@pytest.mark.parametrize(
    "user, agent, action, level, escalate", AGENT_ROWS.values(), ids=AGENT_ROWS
)
def test_the_overrides_of_agents(
    user: str, agent: str, action: str, level: Level, escalate: bool
) -> None:
    for levels in (OTTO, LEVEL) if user == "default" else (OTTO,):
        answer = levels.level_of(action, user, agent)
        assert (answer.level, answer.escalate) == (level, escalate)
        assert answer.verdict is Verdict.ASK if escalate else answer.verdict is not Verdict.DENY


def test_a_glob_names_several_types_of_agents() -> None:
    levels = LEVEL.tightened(file('agent_overrides: {"specialist:*": {git: red}}'))
    assert levels.level_of("git", agent="specialist:chart").level is RED
    assert levels.level_of("git", agent="special").level is YELLOW


def test_the_reason_says_who_and_what() -> None:
    assert OTTO.level_of("git_push", "otto").why == "Git Operations: green for `otto`"
    assert LEVEL.level_of("send_email", agent="sub:1").why == (
        "Email: red for `default`; `sub:1` may at most do yellow, its parent must ask for it"
    )
    assert LEVEL.level_of("frobnicate").why == (
        "no category covers it: red by its effects, red by its score of 11"
    )


def effects(**true: bool) -> LevelEffects:
    return LevelEffects(**(dict.fromkeys(LevelEffects.model_fields, False) | true))


TREE = {
    "external and reversible is YELLOW": (effects(external=True), YELLOW),
    "external and not reversible is RED": (effects(external=True, irreversible=True), RED),
    "no external effect, important state is YELLOW": (effects(important_state=True), YELLOW),
    "no external effect, nothing important is GREEN": (effects(), GREEN),
}
SCORES = {
    "nothing scores 0 and is GREEN": (effects(), 0, GREEN),
    "external scores 2 and is YELLOW": (effects(external=True), 2, YELLOW),
    "irreversible scores 2 and is YELLOW": (effects(irreversible=True), 2, YELLOW),
    "financial scores 3 and is RED": (effects(financial=True), 3, RED),
    "reputational scores 2 and is YELLOW": (effects(reputational=True), 2, YELLOW),
    "data loss scores 2 and is YELLOW": (effects(data_loss=True), 2, YELLOW),
    "two of them are RED": (effects(reputational=True, data_loss=True), 4, RED),
    "all of them are RED": (LevelEffects(), 11, RED),
}


@pytest.mark.parametrize("found, level", TREE.values(), ids=TREE)
def test_a_branch_of_the_decision_tree(found: LevelEffects, level: Level) -> None:
    assert tree(found) is level


@pytest.mark.parametrize("found, total, level", SCORES.values(), ids=SCORES)
def test_a_weight_of_the_score(found: LevelEffects, total: int, level: Level) -> None:
    assert score(found) == total
    assert classify_unknown(found).level is level


def test_the_first_question_of_the_tree_is_the_configuration() -> None:
    assert LEVEL.level_of("send_email", effects=effects()).level is RED
    assert LEVEL.level_of("frobnicate", effects=effects()).level is GREEN
    assert LEVEL.level_of("frobnicate", agent="sub:1").escalate


def test_tree_and_score_combine_to_the_stricter() -> None:
    for values in itertools.product([True, False], repeat=6):
        found = LevelEffects(**dict(zip(LevelEffects.model_fields, values, strict=True)))
        total = score(found)
        scored = RED if total >= 3 else YELLOW if total >= 1 else GREEN
        assert classify_unknown(found).level is strictest_level((tree(found), scored))


def test_the_example_of_a_yellow_report() -> None:
    report = YellowReport.model_validate(
        {
            "action": "git_push",
            "category": "Git Operations",
            "details": "Pushed 3 commits to origin/main (design docs)",
            "timestamp": "2026-02-11T09:55:00Z",
            "reversible": True,
            "undo_command": "git revert HEAD~3..HEAD",
        }
    )
    assert LEVEL.categories.named(report.category) == "git"
    assert LEVEL.level_of(report.action).level is YELLOW


def test_a_report_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        YellowReport(
            action="x", category="y", details="", timestamp="2026-02-11T09:55:00", reversible=True
        )


def test_the_example_of_an_escalation() -> None:
    text = {
        "status": "escalation",
        "completed_work": "...",
        "escalation": {
            "action": "send_email",
            "details": "Need to email vendor about pricing",
            "proposed_content": "...",
            "reason": "Required to complete the task",
        },
    }
    found = Escalation.model_validate(text)
    assert found.model_dump(mode="json") == text
    assert found.escalation == EscalationRequest(**text["escalation"])  # type: ignore[arg-type]
    assert LEVEL.level_of(found.escalation.action, agent="sub-agent").escalate


AUDIT: list[dict[str, Any]] = [
    {"ts": "2026-02-11T09:50:00Z", "level": "yellow", "agent": "main", "action": "git_push",
     "details": "Pushed design docs", "approved": True},
    {"ts": "2026-02-11T10:00:00Z", "level": "red", "agent": "main", "action": "send_email",
     "details": "Meeting followup to john@example.com", "approved": True, "approved_by": "user",
     "approved_at": "2026-02-11T10:01:00Z"},
    {"ts": "2026-02-11T10:15:00Z", "level": "red", "agent": "sub:abc123", "action": "escalation",
     "details": "Sub-agent needs to call external API", "approved": False,
     "reason": "user_declined"},
]  # fmt: skip


@pytest.mark.parametrize("line", AUDIT, ids=lambda one: one["action"])
def test_an_example_of_the_audit_trail(line: dict[str, Any]) -> None:
    assert AuditLine.model_validate(line).model_dump(exclude_none=True) == line


WRONG = {
    "a category that does not exist": (
        "users: {otto: {overrides: {gti: green}}}",
        "user `otto`: overrides: `gti` is not a category; use one of file_ops, memory, ",
    ),
    "an agent's category that does not exist": (
        "agent_overrides: {x: {gti: red}}",
        "agent `x`: `gti` is not a category; use one of file_ops, ",
    ),
    "a category in two lists": (
        "users: {otto: {green: [git], red: [Git Operations]}}",
        "user `otto`: `Git Operations` is both green and red; keep one",
    ),
    "a category that exists already": (
        "categories: {Git Operations: {level: green}}",
        "category `git_operations` exists already; use another name",
    ),
}


@pytest.mark.parametrize("text, message", WRONG.values(), ids=WRONG)
def test_a_wrong_configuration_is_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as error:
        LEVEL.extended(file(text))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "text", ["users: {otto: {purple: [git]}}", "agent_overrides: {x: {git: 3}}"]
)
def test_a_key_or_level_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(PolicyError, match=r"^autonomy.yaml: `"):
        file(text)


CATEGORIES = st.sampled_from(list(LEVEL.categories))
ACTIONS = st.one_of(
    CATEGORIES, st.sampled_from([a for _, a in (GREEN_TABLE | YELLOW_TABLE | RED_TABLE).values()])
)
ANY_LEVEL = st.sampled_from(Level)
NAMES = st.sampled_from(["main", "sub:1", "cron-agent", "specialist:widget", "a", "*", "s*:*"])
AGENT_FILES = st.dictionaries(
    NAMES,
    st.dictionaries(CATEGORIES, ANY_LEVEL, max_size=3).flatmap(
        lambda levels: st.sampled_from([{}, *({"max_level": one} for one in Level)]).map(
            lambda most: {**levels, **most}
        )
    ),
    max_size=3,
).map(lambda found: LevelsFile.model_validate({"agent_overrides": found}))
USER_FILES = st.dictionaries(CATEGORIES, ANY_LEVEL, max_size=4).map(
    lambda found: LevelsFile.model_validate({"users": {"otto": {"overrides": found}}})
)
OWN = st.builds(
    Category,
    level=ANY_LEVEL,
    actions=st.lists(st.sampled_from(["git_push", "*", "send_*", "read_file"])).map(tuple),
)
FILES = st.one_of(AGENT_FILES, USER_FILES)
USER = st.sampled_from(["default", "otto"])


def strictness(levels: Levels, action: str, user: str, agent: str) -> tuple[int, int]:
    answer = levels.level_of(action, user, agent)
    return list(Verdict).index(answer.verdict), LEVELS.index(answer.level)


@given(AGENT_FILES, ACTIONS, USER, NAMES)
def test_an_agents_overrides_never_loosen(
    added: LevelsFile, action: str, user: str, agent: str
) -> None:
    before, after = (strictness(one, action, user, agent) for one in (OTTO, OTTO.extended(added)))
    assert after[0] >= before[0] and after[1] >= before[1]


@given(FILES, ACTIONS, USER, NAMES)
def test_a_tightening_file_never_loosens(
    added: LevelsFile, action: str, user: str, agent: str
) -> None:
    before, after = (strictness(one, action, user, agent) for one in (OTTO, OTTO.tightened(added)))
    assert after[0] >= before[0] and after[1] >= before[1]


@given(OWN, ACTIONS, USER, NAMES)
def test_adding_a_category_never_loosens(own: Category, action: str, user: str, agent: str) -> None:
    added = OTTO.extended(LevelsFile(categories={"trading": own}))
    assert strictness(added, action, user, agent) >= strictness(OTTO, action, user, agent)


@given(st.lists(FILES, max_size=3), ACTIONS, USER, NAMES)
def test_the_order_of_tightening_files_does_not_matter(
    added: list[LevelsFile], action: str, user: str, agent: str
) -> None:
    one = other = OTTO
    for each in added:
        one = one.tightened(each)
    for each in reversed(added):
        other = other.tightened(each)
    assert one.level_of(action, user, agent) == other.level_of(action, user, agent)


@given(st.text(), st.text(), st.text())
def test_every_action_user_and_agent_gets_an_answer(action: str, user: str, agent: str) -> None:
    first = OTTO.level_of(action, user, agent)
    assert OTTO.level_of(action, user, agent) == first


@given(st.text())
def test_a_key_is_idempotent(name: str) -> None:
    assert key(key(name)) == key(name)


def test_own_categories_are_levels_like_any_other() -> None:
    levels = LEVEL.extended(
        file(
            "categories: {Trading: {level: red, actions: [sell_*]}}\n"
            "users: {otto: {overrides: {trading: yellow}}}"
        )
    )
    assert levels.level_of("sell_shares").level is RED
    assert levels.level_of("sell_shares", "otto").level is YELLOW
    assert levels.override("trading", "otto") is YELLOW
