# SPDX-License-Identifier: Apache-2.0
"""Whether a supervisor still runs the code and the settings that count now.

One that does not is replaced when nothing goes on. Where it is busy it goes on only as far as it is
not less strict than the new settings. INVARIANT (absence means less): what is not named here as
comparable, other code, and settings that cannot be read count as stricter than what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from policy.model import Frozen
from sandbox.config.settings import AuditSettings, Settings, TelemetrySettings, load_settings
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.version import code_digest, settings_digest


def _narrower(now: Frozen, wanted: Frozen) -> bool:
    """Whether none of the numbers that run is above the one that is wanted."""
    return all(getattr(now, name) <= getattr(wanted, name) for name in type(now).model_fields)


def _always(now: object, wanted: object) -> bool:
    """Say yes: it bounds no call, and keeps nothing from a person."""
    return True


def _keeps_as_much(now: AuditSettings, wanted: AuditSettings) -> bool:
    """Whether no record goes that the wanted settings would keep."""
    if now.keep == 0:
        return True
    return 0 < wanted.keep <= now.keep and wanted.rotate_mib <= now.rotate_mib


def _sends_no_more(now: TelemetrySettings, wanted: TelemetrySettings) -> bool:
    """Whether spans go nowhere, or where they are wanted."""
    return now.endpoint in (None, wanted.endpoint)


_AS_STRICT: Mapping[str, Callable[[Any, Any], bool]] = {
    "warm": _always,
    "idle": _always,
    "keeper": _always,
    "notices": _always,
    "time_zone": _always,
    "outputs_mib": _always,
    "undo_mib": lambda now, wanted: now >= wanted,
    "call_seconds": lambda now, wanted: now <= wanted,
    "approval_seconds": lambda now, wanted: now <= wanted,
    "limits": _narrower,
    "cell": _narrower,
    "network": _narrower,
    "audit": _keeps_as_much,
    "telemetry": _sends_no_more,
    "hooks": lambda now, wanted: now.redact or not wanted.redact,
}
"""Of settings that can be compared: whether what runs is at least as strict as what is wanted."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How a supervisor lags behind what counts now."""

    changed: tuple[str, ...]
    """The settings that were changed since it began."""
    why_not: str
    """Why it must not go on as it is; empty where it is at least as strict."""


class Freshness:
    """What a supervisor began with, and how that differs from what counts now."""

    def __init__(self, dirs: Dirs) -> None:
        """Take what counts now for what it begins with. Raises BadInput."""
        self._dirs = dirs
        self.code = code_digest()
        self.settings = settings_digest(str(dirs.config))
        self._settings = load_settings(dirs)

    @property
    def digest(self) -> str:
        """What clients compare with theirs."""
        return self.code + self.settings

    def is_current(self, *, same_code: bool = False) -> bool:
        """Whether neither the code nor a file of the settings was changed since; `same_code`: of
        the code that is known."""
        if self.settings != settings_digest(str(self._dirs.config)):
            return False
        return same_code or self.code == code_digest()

    def lag(self) -> Lag:
        """Return how it lags behind."""
        if self.code != code_digest():
            return Lag((), "it runs other code than is installed now")
        try:
            wanted = load_settings(self._dirs)
        except BadInput as error:
            return Lag((), f"the settings cannot be read: {error}")
        changed = tuple(
            name
            for name in Settings.model_fields
            if getattr(self._settings, name) != getattr(wanted, name)
        )
        stricter = [name for name in changed if not self._is_as_strict(name, wanted)]
        names = ", ".join(f"`{name}`" for name in stricter)
        return Lag(changed, f"{names} may be stricter now in the settings" if stricter else "")

    def _is_as_strict(self, name: str, wanted: Settings) -> bool:
        compare = _AS_STRICT.get(name)
        return compare is not None and compare(getattr(self._settings, name), getattr(wanted, name))
