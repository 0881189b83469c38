# SPDX-License-Identifier: Apache-2.0
"""A child stands nowhere above an agent that it works for, however its level came about (P7)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.autonomy.authority import AutonomyLayers
from policy.autonomy.categories import LEVELS
from policy.autonomy.levels import AgentLevels, Level, Levels, LevelsFile
from policy.autonomy.reputation import Domain, ReputationBounds, TrustLevel, rank
from policy.autonomy.trust import TrustFile
from policy.model import Context
from sandbox.agents.reputation import ReputationEvent, Reputations, ReputationSource
from sandbox.config.settings import Dirs

CODE = Domain.CODE_CHANGES
LINE = ("coder", "coder:sub", "coder:sub:c1", "coder:sub:c1:x")
PATTERNS = st.sampled_from(
    (*LINE, "c?der", "*er", "coder*", "*:c1", "sub", "sub-agent", "[a-d]*", "*", "coder:*", "x")
)
TRUST = st.sampled_from(list(TrustLevel))
LEVEL = st.sampled_from(list(Level))
FILES = st.builds(
    TrustFile,
    start=TRUST,
    agents=st.dictionaries(PATTERNS, TRUST, max_size=3),
    pins=st.dictionaries(PATTERNS, TRUST, max_size=3),
    bounds=st.dictionaries(st.just(CODE), TRUST.map(lambda most: ReputationBounds(highest=most))),
)
EVENTS = st.lists(st.tuples(st.sampled_from(LINE), st.booleans()), max_size=4)


def test_a_pin_of_a_child_reaches_no_further_than_its_parent(tmp_path: Path) -> None:
    kept = Reputations(Dirs.under(tmp_path).create())
    trust = TrustFile(pins={"lead:helper": TrustLevel.AUTONOMOUS, "free": TrustLevel.AUTONOMOUS})
    standing = AutonomyLayers.default().extended(trust=trust)

    def level(agent: str) -> TrustLevel:
        return standing.trusted(agent, CODE, Context((), trust=kept.earned(agent, trust)))

    assert level("lead:helper") is level("lead") is TrustLevel.PROPOSE
    assert level("free") is TrustLevel.AUTONOMOUS  # a pin of an agent of its own counts
    kept.pin("lead", CODE, TrustLevel.SEMI_AUTO, trust)
    assert level("lead:helper") is level("lead") is TrustLevel.SEMI_AUTO
    kept.pin("other:helper", CODE, TrustLevel.AUTONOMOUS, trust)
    assert level("other:helper") is level("other") is TrustLevel.PROPOSE


@settings(deadline=None, max_examples=60)  # each event is on disk
@given(own=FILES, limit=FILES, pins=st.dictionaries(st.sampled_from(LINE), TRUST), events=EVENTS)
def test_a_line_of_agents_only_falls(
    tmp_path_factory: pytest.TempPathFactory,
    own: TrustFile,
    limit: TrustFile,
    pins: dict[str, TrustLevel],
    events: list[tuple[str, bool]],
) -> None:
    kept = Reputations(Dirs.under(tmp_path_factory.mktemp("line")).create())
    standing = AutonomyLayers.default().extended(trust=own).tightened(trust=limit)
    trust = standing.trust
    for agent, level in pins.items():
        kept.pin(agent, CODE, level, trust)
    for agent, success in events:
        event = ReputationEvent(
            CODE, success=success, violation=not success, source=ReputationSource.PERSON
        )
        kept.record(agent, event, trust)
    found = [
        standing.trusted(one, CODE, Context((), trust=kept.earned(one, trust))) for one in LINE
    ]
    assert [rank(one) for one in found] == sorted(map(rank, found), reverse=True)


@given(
    said=st.dictionaries(
        PATTERNS,
        st.builds(
            AgentLevels,
            max_level=st.none() | LEVEL,
            levels=st.dictionaries(st.sampled_from(("git", "email", "file_ops")), LEVEL),
        ),
        max_size=4,
    )
)
def test_what_binds_an_agent_binds_all_below_it(said: dict[str, AgentLevels]) -> None:
    levels = Levels.default().extended(LevelsFile(agent_overrides=said))
    for over, under in pairwise(LINE):
        assert LEVELS.index(levels.max_level(under)) <= LEVELS.index(levels.max_level(over))
        for category in ("git", "email", "file_ops", "packages"):
            above = levels.level_of_all((category,), agent=over)
            below = levels.level_of_all((category,), agent=under)
            assert LEVELS.index(below.level) >= LEVELS.index(above.level)
            assert below.escalate or not above.escalate
