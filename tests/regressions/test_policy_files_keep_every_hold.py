# SPDX-License-Identifier: Apache-2.0
"""With any policy file in place, a call could send a person's next push to another repository: the
settings of remotes were left out when files were put on top of each other."""

from __future__ import annotations

from policy.gate1.decide import Policy
from policy.gate2.judge import judge
from policy.model import Change, FileType, Kind, Outcome
from policy.protected.paths import PathPolicy
from policy.sources.document import read_document
from policy.sources.precedence import Layer, Source, combine
from tests.policy.asking import bash

REDIRECTS = Change(
    ".git/config",
    Kind.MODIFIED,
    FileType.FILE,
    before_text='[remote "origin"]\n\turl = https://host.invalid/a\n',
    after_text='[remote "origin"]\n\turl = https://other.invalid/a\n',
)


def test_a_remote_that_moves_is_held_with_and_without_a_policy_file() -> None:
    decision = bash("touch a")
    paths = PathPolicy.default()
    assert judge(decision, [REDIRECTS], paths).outcome is Outcome.HOLD
    for text in ("version: 1\n", "limits: {seconds: 60}\n"):
        source = Source(Layer.USER, read_document(text, "p"))
        combined = combine(Policy.default(), paths, [source]).paths
        assert judge(decision, [REDIRECTS], combined).outcome is Outcome.HOLD
