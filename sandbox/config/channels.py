# SPDX-License-Identifier: Apache-2.0
"""The key `channels` of the settings: ways to reach people outside a terminal."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from policy.model import Frozen

_SECONDS = 10.0


class Channel(Frozen):
    """One way to reach a person: a command or a webhook."""

    command: tuple[str, ...] = ()
    """A program and its arguments; it gets one JSON object on standard input."""
    url: Annotated[str, Field(pattern=r"^https?://")] | None = None
    """A webhook: the object is sent to it by POST."""
    seconds: Annotated[float, Field(gt=0, le=120)] = _SECONDS
    """How long a delivery may take."""

    @model_validator(mode="after")
    def _one(self) -> Channel:
        if bool(self.command) == bool(self.url):
            raise ValueError("a channel is either a `command` or a `url`")
        return self
