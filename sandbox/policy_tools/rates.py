# SPDX-License-Identifier: Apache-2.0
"""`python -m sandbox.policy_tools.rates`: how the corpora of commands are judged, for `make check`.

Each corpus is a file of JSON lines, `command` and the verdicts that are right (`accept`). A denial
of ordinary work is a false alarm, and as wrong as a missed attack. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from policy.gate1.decide import Policy, decide
from policy.model import Verdict
from sandbox.questions.contexts import of_nothing
from sandbox.questions.plans import read_plan

CORPUS = Path(__file__).parents[2] / "tests" / "corpus"
_WORKSPACE = "/workspace"
_CONTEXT = of_nothing((_WORKSPACE,), "/root")
_ALARMS = {"allowed": (Verdict.ASK, Verdict.DENY), "not_denied": (Verdict.DENY,)}
"""Verdicts that are false alarms, by corpus."""
_MOST_SHOWN = 10


@dataclass
class Rates:
    """How the commands of one corpus were judged."""

    name: str
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    wrong: list[tuple[str, Verdict]] = field(default_factory=list)
    """Commands whose verdict is none of those that are right, with that verdict."""

    @property
    def commands(self) -> int:
        """How many commands the corpus has."""
        return self.verdicts.total()

    @property
    def false_alarms(self) -> int:
        """How many of the wrong verdicts stop ordinary work."""
        return sum(verdict in _ALARMS.get(self.name, ()) for _, verdict in self.wrong)

    def line(self) -> str:
        """Return one line for a person."""
        shares = ", ".join(
            f"{self.verdicts[one] / max(1, self.commands):6.1%} {word}"
            for one, word in (
                (Verdict.DENY, "denied"),
                (Verdict.ASK, "asked"),
                (Verdict.REPORT, "reported"),
                (Verdict.ALLOW, "allowed"),
            )
        )
        return (
            f"{self.name:11} {self.commands:5} commands: {shares}; "
            f"{len(self.wrong)} wrong, {self.false_alarms} false alarms"
        )


def rates(name: str, cases: Iterable[tuple[str, Sequence[str]]]) -> Rates:
    """Judge the commands of a corpus, each given with the verdicts that are right."""
    found = Rates(name)
    policy = Policy.default()
    for command, accept in cases:
        said = {"tool": "Bash", "params": {"command": command}, "workspace": _WORKSPACE}
        plan = read_plan(said)
        verdict = decide(plan, _CONTEXT, policy).verdict
        found.verdicts[verdict] += 1
        if verdict.value not in accept:
            found.wrong.append((command, verdict))
    return found


def read(file: Path) -> list[tuple[str, list[str]]]:
    """Return the commands of a corpus with the verdicts that are right. Raises SystemExit."""
    cases = []
    for number, line in enumerate(file.read_text("utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            case = json.loads(line)
            cases.append((str(case["command"]), list(case["accept"])))
        except (ValueError, KeyError, TypeError):
            raise SystemExit(
                f"rates: {file}:{number}: write an object with `command` and `accept`"
            ) from None
    return cases


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rates of each corpus; exit status 1 if any verdict is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.policy_tools.rates", description=__doc__
    )
    parser.add_argument("files", nargs="*", type=Path, help="corpora instead of the project's own")
    args = parser.parse_args(arguments)
    files = args.files or sorted(CORPUS.glob("*.jsonl"))
    if not files:
        raise SystemExit(f"rates: no corpus in {CORPUS}: run it in a checkout, or name files")
    done = [rates(file.stem, read(file)) for file in files]
    for one in done:
        print(one.line())
        for command, verdict in one.wrong[:_MOST_SHOWN]:
            print(f"  {verdict.value}: {command[:120]!r}")
    return 1 if any(one.wrong for one in done) else 0


if __name__ == "__main__":
    sys.exit(main())
