# SPDX-License-Identifier: Apache-2.0
"""Keys and tokens of issuers are data, and no text takes long to look through for them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sandbox.text.redaction import MASK, mask
from sandbox.text.secret_shapes import Shape, ShapeRun, shapes

SHAPES = {one.issuer: one for one in shapes()}
LETTERS = "A7b0c-1_d/"


def filled(run: ShapeRun, count: int) -> str:
    """Return so many characters of a set."""
    some = [one for one in LETTERS if run.holds(one) and one.isalnum()]
    return "".join(some[at % len(some)] for at in range(count))


def examples(shape: Shape, less: int = 0) -> list[str]:
    """Return a secret for each text that it may hold; `less` characters too short at its end."""
    texts = [""]
    for number, part in enumerate(shape.parts):
        if isinstance(part, ShapeRun):
            short = less if number == len(shape.parts) - 1 else 0
            texts = [text + filled(part, part.least - short) for text in texts]
        else:
            texts = [text + one for text in texts for one in part]
    return texts


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_shape_is_masked_and_what_is_too_short_is_not(shape: Shape) -> None:
    for text in examples(shape):
        assert mask(f"say {shape.after}{text} again") == f"say {shape.after}{MASK} again"
    for text in examples(shape, less=1):
        line = f"say {shape.after}{text} again"
        assert mask(line) == line


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_shape_begins_where_a_word_does(shape: Shape) -> None:
    if not shape.after:
        for text in examples(shape):
            assert mask(f"say x{text} again") == f"say x{text} again"


RUN: dict[str, Any] = {"of": "a-z", "least": 4, "most": 9}
GOOD: dict[str, Any] = {"issuer": "x", "parts": [["ab_"], RUN]}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a run after a run": ({"parts": [["ab_"], RUN, RUN]}, "a run follows a run"),
    "a run that can hold what follows": ({"parts": [["ab_"], RUN, ["q"]]}, "the beginning of the"),
    "a long run to begin with": (
        {"parts": [{**RUN, "most": 33}, ["_x"]], "holds": ["_x"]},
        "begins with a run",
    ),
    "a run without an end": ({"parts": [["ab_"], {**RUN, "most": 8001}]}, "less than or equal"),
    "a run that may be empty": ({"parts": [["ab_"], {**RUN, "least": 0}]}, "greater than or equal"),
    "more at least than at most": ({"parts": [["ab_"], {**RUN, "most": 3}]}, "less than `least`"),
    "a pattern for a set": ({"parts": [["ab_"], {**RUN, "of": "a-z]+["}]}, "is no set"),
    "an empty text": ({"parts": [[""], RUN]}, "a text is empty"),
    "no text": ({"parts": [[], RUN]}, "a text is empty"),
    "nothing": ({"parts": []}, "at least 1 item"),
    "no word to look for": ({"parts": [RUN]}, "must say which word"),
    "a word that is not in it": ({"holds": ["zz"]}, "no text of it holds `zz`"),
    "a word that only some hold": (
        {"parts": [["ab_", "cd_"], RUN], "holds": ["ab"]},
        "may be without any word",
    ),
    "a word that nobody knows": ({"regex": "x+"}, "Extra inputs"),
}


@pytest.mark.parametrize(("change", "said"), WRONG.values(), ids=WRONG)
def test_a_shape_that_could_take_long_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Shape.model_validate({**GOOD, **change})


def test_one_that_cannot_is_read() -> None:
    """The control of the test before."""
    shape = Shape.model_validate(GOOD)
    assert (shape.words, shape.pattern()) == (("ab_",), r"\b(?:ab_)[a-z]{4,9}")


def test_a_webhook_without_a_scheme_is_masked() -> None:
    """The words that are looked for first left it out."""
    text = "post it to hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D/q"
    assert mask(text) == f"post it to hooks.slack.com/services/{MASK}"
