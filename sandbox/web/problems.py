# SPDX-License-Identifier: Apache-2.0
"""How a request fails over HTTP: one shape, a status that fits, and what to do instead. Pure."""

from __future__ import annotations

from policy.model import Frozen
from sandbox import errors
from sandbox.approvals.answers import NotOpen


class Problem(Frozen):
    """Why a request was not carried out."""

    kind: str
    message: str
    """What failed, on what; one line."""
    instead: str
    """What to do."""


class HttpRefusal(Exception):
    """A request that is refused before anybody is asked."""

    def __init__(self, status: int, kind: str, message: str, instead: str) -> None:
        super().__init__(message)
        self.status = status
        self.problem = Problem(kind=kind, message=message, instead=instead)


_ASK = "correct the request; `/openapi.json` says what it may hold"
_STATUS: tuple[tuple[type[errors.SandboxError], int, str], ...] = (
    (NotOpen, 409, "look at `/v1/approvals` for what waits now"),
    (errors.NotShown, 409, "look at it again, and decide about what stands there now"),
    (errors.BadInput, 400, _ASK),
    (errors.Stopped, 423, "a person lets calls run again: `lockgate resume`"),
    (errors.Busy, 503, "try again soon"),
    (errors.Unavailable, 503, "`lockgate doctor` says what is missing; try again then"),
    (errors.ImageProblem, 503, "`lockgate doctor` says what is missing; try again then"),
    (errors.NotEnforced, 503, "`lockgate doctor` says what this host does not enforce"),
)
STATUSES = {
    400: "something in the request cannot be carried out as asked",
    401: "the token is missing or wrong",
    403: "it is a person's decision, or nobody's whose process is not known",
    404: "there is nothing of that name",
    405: "this resource knows no such method",
    409: "it was answered, or is another, by now",
    413: "the request is too large",
    415: "the body is no JSON",
    421: "the request is for another host",
    423: "a stop is in force",
    429: "too many wrong tokens came from that process",
    502: "the supervisor failed",
    503: "something that this host must offer is missing",
}
"""Every status of a refusal, and what it means."""


def problem_of(error: errors.SandboxError) -> tuple[int, Problem]:
    """Return the status and the answer for what Lockgate could not do."""
    kind = type(error).__name__
    for known, status, instead in _STATUS:
        if isinstance(error, known):
            return status, Problem(kind=kind, message=str(error), instead=instead)
    return 502, Problem(kind=kind, message=str(error), instead="`lockgate log` says what landed")


def refusal_of(error: errors.SandboxError) -> HttpRefusal:
    """Return the refusal that says what Lockgate could not do."""
    status, problem = problem_of(error)
    return HttpRefusal(status, problem.kind, problem.message, problem.instead)


def missing(what: str) -> HttpRefusal:
    """Return the refusal of a name that nothing has."""
    return HttpRefusal(404, "NotFound", f"there is no {what}", "list them for the names that count")
