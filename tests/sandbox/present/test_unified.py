# SPDX-License-Identifier: Apache-2.0
"""What a person is shown of a change before they vouch for it hides no difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.cli.admin.vouch import _shown
from sandbox.guard.vouch import Change
from sandbox.text.unified import unified


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        (b"# x\x0bevil\n", b"# x\nevil\n", "-# x\\x0bevil\n+# x\n+evil"),
        (b"a\xff\n", b"a\xfe\n", "-a\\xff\n+a\\xfe"),
        (b"a\r\n", b"a\n", "-a\\r\n+a"),
        (b"a", b"a\n", "-a\n\\ No newline at end of file\n+a"),
        ("a\u2028b\n".encode(), b"a\nb\n", "-a\\u2028b\n+a\n+b"),
    ],
)
def test_a_line_ends_at_a_line_feed_alone(old: bytes, new: bytes, shown: str) -> None:
    assert unified("f", old, new).split("@@\n")[1] == shown


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_contents_that_differ_show_a_difference(old: bytes, new: bytes) -> None:
    assert (unified("f", old, new) == "") == (old == new)


@pytest.mark.parametrize(
    ("before", "mode", "said"),
    [
        (None, "100755", "mode 100755"),
        (None, "120000", "mode 120000 (a link)"),
        ("120000", "120000", "mode 120000 (a link)"),
        ("100644", "100755", "mode 100644 -> 100755"),
        (None, "100644", "--- /dev/null"),
    ],
)
def test_the_mode_that_is_vouched_for_is_shown(before: str | None, mode: str, said: str) -> None:
    old = None if before is None else b"a\n"
    one = Change(".envrc", "created", "shell-environment", before, mode, old, b"b\n")
    assert _shown(one).split("\n")[1] == said
