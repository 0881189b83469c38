# SPDX-License-Identifier: Apache-2.0
"""Take out of a policy file what could loosen something, and name it. Pure.

INVARIANT (P7, files): of a file that nobody trusted nothing counts that makes an answer milder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policy.autonomy.authority import AutonomyLayers
from policy.autonomy.categories import Level
from policy.autonomy.levels import LevelsFile
from policy.autonomy.modes import Mode
from policy.autonomy.reputation import TrustLevel
from policy.autonomy.roles import RolesFile
from policy.model import Tier
from policy.rules.matching import Tools
from policy.sources.schema import LandFreely, PolicyDocument

_LOOSENING_PLACES = ("environment_templates", "agent_home")
_MODES = list(Mode)


def tightening(
    content: PolicyDocument, autonomy: AutonomyLayers
) -> tuple[PolicyDocument, list[tuple[str, str]]]:
    """Return a document without what could loosen, and (key, reason) for all that was left out."""
    kept: dict[str, Any] = {}
    left_out: list[tuple[str, str]] = []

    def leave(key: str, value: Any, what: str) -> None:
        kept[key] = value
        left_out.append((key, f"`{what}` is ignored, since it would loosen what counts"))

    if content.secrets.show:
        secrets = content.secrets.model_copy(update={"show": (), "match": (), "miss": ()})
        leave("secrets", secrets, "secrets.show")
    if content.links:
        leave("links", (), "links")
    network = content.network
    for name in ("allow", "credentials"):
        if getattr(network, name):
            network = network.model_copy(update={name: ()})
            leave("network", network, f"network.{name}")
    for name in LandFreely.model_fields:
        if getattr(content.land_freely, name):
            leave("land_freely", LandFreely(), f"land_freely.{name}")
    if any(program.tier is Tier.CAUTION for program in content.programs):
        strict_ones = tuple(
            program for program in content.programs if program.tier is not Tier.CAUTION
        )
        leave("programs", strict_ones, "programs with `tier: caution`")
    loose = sorted(content.tools.model_fields_set - {"ask", "deny"})
    if loose:
        strict = Tools(ask=content.tools.ask, deny=content.tools.deny)
        for name in loose:
            leave("tools", strict, f"tools.{name}")
    places = content.places
    for name in _LOOSENING_PLACES:
        if getattr(places, name):
            places = places.model_copy(update={name: ()})
            leave("places", places, f"places.{name}")
    for key, value, what in _autonomy(content, autonomy):
        leave(key, value, what)
    left_out += [
        (what.split(".")[0], f"`{what}` is ignored where it would loosen what counts")
        for what in _milder(content, autonomy)
    ]
    return content.model_copy(update=kept), left_out


def _milder(content: PolicyDocument, autonomy: AutonomyLayers) -> Iterator[str]:
    """Yield what counts of an untrusted file only as far as it tightens (`tightened`)."""
    levels, modes, trust = content.levels, content.modes, content.trust
    for name, user in levels.users.items() if levels is not None else ():
        if any(level is not Level.RED for level in user.overrides.values()):
            yield f"levels.users.{name}.overrides"
    for name in sorted(modes.model_fields_set - {"mode"}) if modes is not None else ():
        yield f"modes.{name}"
    if trust is None:
        return
    lowest = TrustLevel.PROPOSE
    for name in sorted(trust.model_fields_set):
        said = getattr(trust, name)
        if isinstance(said, TrustLevel):
            milder = said is not lowest
        elif name in ("agents", "pins"):
            milder = any(level is not lowest for level in said.values())
        elif name == "objection_seconds":
            milder = said < autonomy.trust.objection_seconds
        else:
            milder = bool(said)
        if milder:
            yield f"trust.{name}"


def _autonomy(content: PolicyDocument, autonomy: AutonomyLayers) -> Iterator[tuple[str, Any, str]]:
    levels = content.levels
    for name in ("categories", "agent_types"):
        if levels is not None and getattr(levels, name):
            levels = LevelsFile(**{**dict(levels), name: {}})
            yield "levels", levels, f"levels.{name}"
    modes, now = content.modes, autonomy.modes.mode
    if modes is not None and _MODES.index(modes.mode) > _MODES.index(now):
        yield "modes", None, f"modes.mode: {modes.mode.value}"
    roles = content.roles
    if roles is not None:
        known = set(autonomy.roles.names)
        new = sorted(set(roles.roles) - known)
        own = {name: role for name, role in roles.roles.items() if name in known}
        for name in new:
            yield "roles", RolesFile(roles=own), f"roles.roles.{name}"
