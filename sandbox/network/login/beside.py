# SPDX-License-Identifier: Apache-2.0
"""Which headers go beside a credential, and which answers come back from where it went. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NEVER_BESIDE = frozenset(
    (b"authorization", b"accept-encoding", b"range", b"if-range", b"request-range", b"forwarded",
     b"x-method-override", b"x-host", b"x-override-url", b"x-real-ip", b"front-end-https",
     b"x-script-name", b"x-url-scheme", b"x-client-ip", b"true-client-ip", b"x-cluster-client-ip")
)  # fmt: skip
"""Headers of a client that do not go beside a credential: its own login, what would make a server
do another thing than the method and the path say, or take the request for another's, and what would
spell an echoed secret in another way."""
_BEGINNINGS = (
    b"x-forwarded", b"x-original-", b"x-rewrite-", b"x-http-", b"x-proxy-", b"x-accel-",
    b"x-envoy-", b"x-sendfile",
)  # fmt: skip
_PLAIN = frozenset((b"", b"identity"))
_TEXTS = (b"json", b"xml", b"javascript", b"yaml", b"x-www-form-urlencoded", b"graphql")
Fields = Iterable[tuple[bytes, bytes]]


def dropped_beside(name: bytes) -> bool:
    """Whether a header of a client, in lower case, stays behind where a credential goes."""
    return name in _NEVER_BESIDE or name.startswith(_BEGINNINGS)


def check_answer(headers: Fields, reason: bytes, spelled: Sequence[bytes]) -> str:
    """Return why an answer does not come back: its head holds the secret, or its text is encoded
    so that nobody can see whether it does. Empty: it does."""
    fields = tuple(headers)
    for one in spelled:
        if one in reason or any(
            one in value or one.lower() in name.lower() for name, value in fields
        ):
            return "holds the credential"
    values = dict(fields)
    if values.get(b"content-encoding", b"").strip().lower() in _PLAIN:
        return ""
    kind = values.get(b"content-type", b"text/").partition(b";")[0].strip().lower()
    if kind.startswith(b"text/") or kind.endswith(_TEXTS):
        return "is encoded, though it was asked to be plain"
    return ""
