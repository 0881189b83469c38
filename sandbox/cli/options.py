# SPDX-License-Identifier: Apache-2.0
"""Options and types of values that several commands share."""

from __future__ import annotations

import re

import click

from sandbox.text.terminal import safe_line

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_LONGEST = 86_400.0


class Duration(click.ParamType[float]):
    """A time such as `90`, `90s`, `10m`, `2h`; at most a day. Its value is in seconds."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        match = _DURATION.fullmatch(str(value).strip())
        seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
        if not 0 < seconds <= _LONGEST:
            self.fail(f"`{safe_line(str(value))}` is not a time such as 90s, 10m or 2h", param, ctx)
        return seconds
