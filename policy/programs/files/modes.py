# SPDX-License-Identifier: Apache-2.0
"""Programs that change the mode and the owner of files."""

from __future__ import annotations

import re

from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.partial import unknown


def judge_mode(shell: Shell, mode: str, name: str) -> None:
    """Record what a mode opens: 777 in any spelling is forbidden, less than that is asked about."""
    if unknown(mode):
        shell.find(Tier.DANGER, "permissions", f"`{name}`: the mode cannot be known")
    elif re.fullmatch(r"[+=]?[0-7]{1,5}", mode):
        mode = mode.lstrip("+=")
        digits = mode.zfill(4)[-4:]
        if digits[-3:] == "777":
            if digits[0] == "1":
                shell.find(Tier.DANGER, "permissions", f"`{name} {mode}`: everybody may write")
            else:
                shell.find(
                    Tier.FORBIDDEN,
                    "world-writable",
                    f"`{name} {mode}`: everybody may write and run it",
                )
        elif digits[0] != "0" or int(digits[-1]) & 2:
            shell.find(
                Tier.DANGER,
                "permissions",
                f"`{name} {mode}`: sets special bits or lets everybody write",
            )
    else:
        _symbolic(shell, mode, name)


def _symbolic(shell: Shell, mode: str, name: str) -> None:
    given: dict[str, set[str]] = {"u": set(), "g": set(), "o": set()}
    for clause in mode.split(","):
        match = re.fullmatch(r"([ugoa]*)([-+=])([rwxXst]*)", clause)
        if match is None:
            shell.find(Tier.DANGER, "permissions", f"`{name} {mode}`: the mode cannot be read")
            return
        who, sign, bits = match[1], match[2], match[3]
        everyone = not who or "a" in who
        for one in "ugo" if everyone else who:
            given[one] = given[one] - set(bits) if sign == "-" else given[one] | set(bits)
        if sign != "-" and set(bits) & {"s", "t"}:
            shell.find(Tier.DANGER, "permissions", f"`{name} {mode}`: sets special bits")
        if not who and sign == "+" and "w" in bits and "x" not in bits:
            given["o"].discard("w")  # without a class, the umask keeps this bit away
    wide = all({"r", "w"} <= bits and bits & {"x", "X"} for bits in given.values())
    if wide:
        shell.find(
            Tier.FORBIDDEN, "world-writable", f"`{name} {mode}`: everybody may write and run it"
        )
    elif "w" in given["o"]:
        shell.find(Tier.DANGER, "permissions", f"`{name} {mode}`: everybody may write")


def read_chmod(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Read `chmod`."""
    words = [
        argument
        for argument in call.args
        if not re.fullmatch(
            r"-[Rvcf]+|--(?:recursive|verbose|changes|silent|quiet|preserve-root)", argument
        )
    ]
    shell.find(entry.tier, entry.rule, f"`chmod`: {entry.because}")
    shell.facts.writes = True
    references = [word for word in words if word.startswith("--reference")]
    if words and not references:
        judge_mode(shell, words[0], "chmod")
    elif references:
        shell.find(Tier.DANGER, "permissions", "`chmod --reference`: the mode is not known")
    for path in words if references else words[1:]:
        if not path.startswith("--"):
            catalog.use(shell, Use.META, path, call)
    return ""
