# SPDX-License-Identifier: Apache-2.0
"""Where reputation is kept, and which outcomes of calls move it by themselves.

The arithmetic is `policy.autonomy.reputation`. INVARIANT: an agent's word about itself can lower
its level and never raise it; only what was seen here, or a person says, can do that, within the
policy's bounds.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from policy.autonomy.reputation import Domain, Reputation, TrustLevel, begin, decayed, lower, pin
from policy.autonomy.reputation import record_outcome as moved
from policy.autonomy.trust import TrustFile
from policy.model import Outcome
from sandbox.host.dirs import Dirs
from sandbox.host.latch import above, below
from sandbox.host.sqlite import Database
from sandbox.results import CallResult, ChangeView, Ending

FILE = "reputation.sqlite"
_DAY = 86_400.0
_OBSERVED_WEIGHT = 0.25
"""A test run or a conflict says a little; a person's undo says all of it."""
EARNED_SECONDS = 600.0
"""A success that was seen here counts once in this time: an agent may run tests as it likes."""
MOST_REMEMBERED = 1024
Earned = tuple[tuple[str, str], ...]
"""Domains and levels, as `Context.trust` has them."""
_STEPS = (
    """
    CREATE TABLE states (
        agent TEXT NOT NULL, domain TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL,
        PRIMARY KEY (agent, domain)
    );
    """,
    """
    CREATE TABLE earned (
        agent TEXT NOT NULL, domain TEXT NOT NULL, at REAL NOT NULL,
        PRIMARY KEY (agent, domain)
    );
    """,
)


class ReputationSource(str, Enum):
    """Whose word an outcome is."""

    OBSERVED = "observed"
    """Seen by Lockgate itself."""
    PERSON = "person"
    AGENT = "agent"
    """An agent about itself."""


@dataclass(frozen=True, slots=True)
class ReputationEvent:
    """One outcome of an agent's action."""

    domain: Domain
    success: bool
    confidence: float = 1.0
    reverted: bool = False
    violation: bool = False
    source: ReputationSource = ReputationSource.OBSERVED
    what: str = ""


class Reputations:
    """The reputation of every agent of one state folder."""

    def __init__(self, dirs: Dirs, clock: Callable[[], float] = time.time) -> None:
        """Reach for nothing yet."""
        self._db = Database(
            dirs.state / FILE, _STEPS, loss="every agent begins where the policy lets it start"
        )
        self._clock = clock
        self._seen: tuple[int, ...] | None = None
        self._states: dict[tuple[str, Domain], tuple[float, Reputation]] = {}
        self._known: frozenset[str] = frozenset()
        """Agents of which anything is known."""
        self._unknown: dict[str, tuple[TrustFile, Earned]] = {}
        """What agents amount to of which, as of all above them, nothing is known, by what file."""

    def states(self, agent: str, trust: TrustFile) -> dict[Domain, Reputation]:
        """Return what an agent has earned, per domain, as it is now."""
        return {domain: self._now(agent, domain, trust) for domain in Domain}

    def earned(self, agent: str, trust: TrustFile) -> Earned:
        """Return domain and level where an agent has earned or lost something, or works for
        another one (Context.trust).

        INVARIANT (P7, Trust): no level lies above that of an agent whose child this one is, whether
        it was earned, pinned or where it starts.
        """
        self._refresh()
        line = tuple(above(agent))
        if not self._known.isdisjoint(line):  # what was earned fades with time
            return self._earned(agent, line, trust)
        kept = self._unknown.get(agent)
        if kept is None or kept[0] is not trust:
            if len(self._unknown) >= MOST_REMEMBERED:
                self._unknown.clear()
            kept = self._unknown[agent] = trust, self._earned(agent, line, trust)
        return kept[1]

    def _earned(self, agent: str, line: Sequence[str], trust: TrustFile) -> Earned:
        found = []
        for domain in Domain:
            level = lower(self._level(name, domain, trust) for name in line)
            if (agent, domain) in self._states or level is not trust.level(agent, domain):
                found.append((domain.value, level.value))
        return tuple(found)

    def _level(self, agent: str, domain: Domain, trust: TrustFile) -> TrustLevel:
        """Return the level of one agent, whoever it works for."""
        if (agent, domain) not in self._states or trust.pinned(agent):
            return trust.level(agent, domain)
        current = self._now(agent, domain, trust, fresh=False).current
        return trust.level(agent, domain, {domain.value: current.value})

    def record(self, agent: str, event: ReputationEvent, trust: TrustFile) -> Reputation:
        """Note an outcome and return the new state. On disk when this returns."""
        with self._db.writing() as db:
            self._load(db)
            state = self._now(agent, event.domain, trust, fresh=False)
            if not self._too_soon(db, agent, event):
                state = after(state, event, trust)
                self._put(db, agent, state)
        return state

    def _too_soon(self, db: sqlite3.Connection, agent: str, event: ReputationEvent) -> bool:
        """Whether a success was seen a moment ago already; else note that one is seen now."""
        if not event.success or event.source is not ReputationSource.OBSERVED:
            return False
        key, now = (agent, event.domain.value), self._clock()
        row = db.execute("SELECT at FROM earned WHERE agent = ? AND domain = ?", key).fetchone()
        if row is not None and now < row[0] + EARNED_SECONDS:
            return True
        db.execute("INSERT OR REPLACE INTO earned VALUES (?, ?, ?)", (*key, now))
        return False

    def pin(
        self, agent: str, domain: Domain, level: TrustLevel | None, trust: TrustFile
    ) -> Reputation:
        """Set or lift the level that a person sets."""
        with self._db.writing() as db:
            self._load(db)
            state = pin(self._now(agent, domain, trust, fresh=False), level)
            self._put(db, agent, state)
        return state

    def agents(self) -> list[str]:
        """Return the agents of which anything is known."""
        self._refresh()
        return sorted(self._known)

    def _now(
        self, agent: str, domain: Domain, trust: TrustFile, *, fresh: bool = True
    ) -> Reputation:
        if fresh:
            self._refresh()
        bounds, numbers = trust.bounds.get(domain), trust.reputation
        found = self._states.get((agent, domain))
        if found is None:
            return begin(domain, trust.level(agent, domain), bounds, numbers)
        at, state = found
        return decayed(state, (self._clock() - at) / _DAY, bounds=bounds, arithmetic=numbers)

    def violations_below(self, agent: str) -> dict[str, int]:
        """Return how often each agent that works for one changed a protected path, if it did.

        Trust is each agent's own, so this lowers nobody else; whoever gave the work is told.
        """
        self._refresh()
        found: dict[str, int] = {}
        for (one, _), (_, state) in self._states.items():
            if one != agent and below(agent, one) and state.violations:
                found[one] = found.get(one, 0) + state.violations
        return dict(sorted(found.items()))

    def _refresh(self) -> None:
        """Read the file again if it changed."""
        try:
            info = self._db.path.stat()
        except OSError:
            self._states, self._known, self._seen = {}, frozenset(), None
            return
        seen = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        if seen != self._seen:
            with self._db.reading() as db:
                self._load(db)
            self._seen = seen

    def _load(self, db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT agent, domain, at, body FROM states").fetchall()
        self._states = {
            (agent, Domain(domain)): (at, Reputation.model_validate_json(body))
            for agent, domain, at, body in rows
        }
        self._known = frozenset(agent for agent, _ in self._states)

    def _put(self, db: sqlite3.Connection, agent: str, state: Reputation) -> None:
        at = self._clock()
        db.execute(
            "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)",
            (agent, state.domain.value, at, state.model_dump_json()),
        )
        self._states[agent, state.domain] = (at, state)
        self._known |= {agent}


def after(state: Reputation, event: ReputationEvent, trust: TrustFile) -> Reputation:
    """Return the state after an outcome, by whose word it is."""
    if event.source is ReputationSource.AGENT and event.success:  # nobody rises by praising himself
        return state
    return moved(
        state,
        success=event.success,
        confidence=event.confidence,
        reverted=event.reverted,
        violation=event.violation,
        bounds=trust.bounds.get(event.domain),
        arithmetic=trust.reputation,
    )


def observed(
    result: CallResult, domain: Callable[[], Domain], *, vouched: bool
) -> ReputationEvent | None:
    """Return what the outcome of a call says about its agent, if it says anything.

    A change of a governance path is a violation; an objection counts like an undo; a conflict says
    a little against it; a run of the project's tests says what its exit status says. The domain is
    looked up only then.

    INVARIANT (P7, faked): tests that pass count only where the program that said so is `vouched`
    for: the image's, in a home that nobody wrote in. A program of the workspace or of the agent's
    home can print what it likes.
    """
    if result.objected:
        what = "a person objected to a change"
        return ReputationEvent(
            domain(), success=False, reverted=True, source=ReputationSource.PERSON, what=what
        )
    if result.judgement == Outcome.DISCARD.value:
        return ReputationEvent(
            domain(), success=False, violation=True, what="changed a protected path"
        )
    if result.judgement == Outcome.HOLD.value and any(
        _conflict(change) for change in result.changes
    ):
        weight = _OBSERVED_WEIGHT
        return ReputationEvent(
            domain(), success=False, confidence=weight, what="ran into a conflict"
        )
    if result.ending is not Ending.RAN or "tests" not in result.rules:
        return None
    passed = result.exit_status == 0
    if passed and not vouched:
        return None
    what = "tests passed" if passed else "tests failed"
    return ReputationEvent(domain(), success=passed, confidence=_OBSERVED_WEIGHT, what=what)


def _conflict(change: ChangeView) -> bool:
    return change.reason is not None and "the real file changed" in change.reason
