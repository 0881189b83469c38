# SPDX-License-Identifier: Apache-2.0
"""Requests of one connection to a host that gets a credential, one after the other.

HTTP/1.1 is read and written anew on both sides, so that a cell and a host never see each other's
framing: what is odd ends here. INVARIANT (P4, credentials): a secret goes to its own host alone,
over verified TLS, and is passed back in no header.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import h11

from sandbox.network.ends import TLS_PORT, Refused
from sandbox.network.login.beside import check_answer, dropped_beside
from sandbox.network.login.spellings import Masker, spellings
from sandbox.network.login.uses import (
    BadPush,
    PushReader,
    RequestLine,
    Secret,
    Use,
    chosen,
    header_of,
)

MOST_HEAD = 65_536
"""Bytes of a request's or an answer's head."""
_METHOD = re.compile(rb"[A-Z]{3,16}")
_BARRED = frozenset((b"CONNECT", b"TRACE"))
_OF_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"te", b"trailer",
     b"proxy-authorization", b"transfer-encoding", b"upgrade", b"http2-settings", b"expect",
     b"content-length", b"host", b"alt-svc")
)  # fmt: skip
"""Headers that are about one connection, or said anew."""
_LOGINS = (b"set-cookie", b"set-cookie2")
"""Headers of an answer that hand out a login of its own."""
Headers = list[tuple[bytes, bytes]]


class Side(Protocol):
    """One end of a connection, decrypted."""

    async def read(self) -> bytes:
        """Return some bytes; nothing at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes."""
        ...


class FarSide(Side, Protocol):
    """The host's end."""

    def ended(self) -> bool:
        """Whether it has no further answer."""
        ...

    def abort(self) -> None:
        """End it at once."""
        ...


class _Odd(Exception):
    """A request that is answered here: status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class LoginExchange:
    """Carries the requests of one connection."""

    def __init__(
        self,
        place: tuple[str, int],
        uses: Sequence[Use],
        near: Side,
        connect: Callable[[], Awaitable[FarSide]],
        secret: Callable[[Use], Awaitable[Secret]],
        tell: Callable[[str], None],
    ) -> None:
        """`place` is the host's name and port, `secret` reads a credential's (raises Refused),
        `tell` hears of each request that gets one, by its id."""
        self._name, self._port = place
        self._uses = tuple(uses)
        self._near = near
        self._connect = connect
        self._secret = secret
        self._tell = tell
        self._cell = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)
        self._far: FarSide | None = None
        self._host = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)

    async def serve(self) -> None:
        """Serve until one side ends. Raises Refused, once the client was told why; OSError."""
        try:
            while True:
                request = await _next(self._cell, self._near)
                if isinstance(request, h11.ConnectionClosed):
                    return
                assert isinstance(request, h11.Request)
                if not await self._one(request):
                    return
                self._cell.start_next_cycle()
        except _Odd as error:
            await self._answer(error.status, str(error))
            raise Refused(str(error)) from None
        except Refused as error:
            await self._answer(502, str(error))
            raise
        except h11.ProtocolError as error:
            why = "it is no HTTP/1.1 that can be passed on"
            await self._answer(error.error_status_hint, why)
            raise Refused(why) from None
        finally:
            if self._far is not None:
                self._far.abort()

    async def _one(self, request: h11.Request) -> bool:
        """Carry one request and its answer; return whether another can follow."""
        asked = self._read(request)
        use = chosen(self._uses, asked)
        if use is not None and any(b"_" in name for name, _ in request.headers):
            raise _Odd(400, "a credential goes beside no header whose name has an underscore")
        if asked.pushes and use is None:
            raise _Odd(403, "no credential of this call is for such a push")
        secret = await self._secret(use) if use is not None else None
        head = self._head(request, use, secret)
        first = b""
        if use is not None and asked.pushes and asked.method == "POST":
            first = await self._judged_push(request, use)
        far = await self._ready()
        await far.write(self._host.send(head) or b"")
        if use is not None:
            self._tell(use.id)
        sending = asyncio.ensure_future(self._send_body(far, first))
        sending.add_done_callback(lambda done: _gone(done, far))
        try:
            spelled = _spelled(use, secret)
            try:
                answer = await self._answered(Masker(spelled), spelled)
            except h11.RemoteProtocolError:
                raise _Odd(502, "the host's answer is no HTTP/1.1 that can be passed on") from None
            if not sending.done() and self._cell.their_state is h11.DONE:
                await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        again = (self._cell.our_state, self._cell.their_state) == (h11.DONE, h11.DONE)
        more = self._host.trailing_data[0]  # an answer to nothing, which would be the next one's
        if (self._host.our_state, self._host.their_state) == (h11.DONE, h11.DONE) and not more:
            self._host.start_next_cycle()
        else:
            far.abort()
            self._far = None
        return again and answer

    def _read(self, request: h11.Request) -> RequestLine:
        """Return what a request asks for. Raises _Odd for what a server might read otherwise."""
        names = [name for name, _ in request.headers]
        hosts = [value for name, value in request.headers if name == b"host"]
        if _METHOD.fullmatch(request.method) is None or request.method in _BARRED:
            raise _Odd(405, "its method is not carried")
        if not request.target.startswith(b"/") or b"#" in request.target:
            raise _Odd(400, "it is no plain request for a path")
        own = (self._name.encode(), f"{self._name}:{self._port}".encode())
        if len(hosts) != 1 or hosts[0].lower() not in own:
            raise _Odd(421, "it names another host than the one it goes to")
        if b"upgrade" in names:
            raise _Odd(400, "it wants another protocol")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise _Odd(400, "it says its length in two ways")
        kinds = [value for name, value in request.headers if name == b"content-type"]
        if len(kinds) > 1:
            raise _Odd(400, "it says twice what it holds")
        kind = kinds[0].decode("latin-1").strip() if kinds else ""
        return RequestLine(request.method.decode(), request.target.decode("latin-1"), kind)

    def _head(self, request: h11.Request, use: Use | None, secret: Secret | None) -> h11.Request:
        """Return a request as it is passed on."""
        headers = _kept(request.headers)
        if use is not None and secret is not None:
            name, value = header_of(use, secret)
            headers = [
                field
                for field in headers
                if field[0] != name.lower() and not dropped_beside(field[0])
            ]
            headers += [(name, value), (b"Accept-Encoding", b"identity")]
        for said in (b"content-length", b"transfer-encoding"):
            headers += [(name, value) for name, value in request.headers if name == said]
        host = self._name if self._port == TLS_PORT else f"{self._name}:{self._port}"
        return h11.Request(
            method=request.method,
            target=request.target,
            headers=[(b"Host", host.encode()), *headers],
        )

    async def _judged_push(self, request: h11.Request, use: Use) -> bytes:
        """Return the beginning of a push, once all that it would change may be changed."""
        if any(name == b"content-encoding" for name, _ in request.headers):
            raise _Odd(403, "a push that is compressed cannot be looked at")
        reader, first = PushReader(use.push), bytearray()
        try:
            while True:
                event = await self._body_event()
                if isinstance(event, h11.EndOfMessage):
                    raise BadPush("what it would change cannot be read")
                first += event.data
                if reader.feed(bytes(event.data)):
                    return bytes(first)
        except BadPush as error:
            raise _Odd(403, f"`{use.id}`: {error}") from None

    async def _body_event(self) -> Any:
        if self._cell.they_are_waiting_for_100_continue:
            told = self._cell.send(h11.InformationalResponse(status_code=100, headers=[]))
            await self._near.write(told or b"")
        return await _next(self._cell, self._near)

    async def _send_body(self, far: FarSide, first: bytes) -> None:
        """Pass a request's body on; a host that takes no more of it has answered, or will not."""
        told = bytearray(self._host.send(h11.Data(first)) or b"") if first else bytearray()
        while True:
            event = await self._body_event()
            ends = isinstance(event, h11.EndOfMessage)
            told += self._host.send(h11.EndOfMessage() if ends else event) or b""
            try:
                await far.write(bytes(told))
            except OSError:
                return
            told.clear()
            if ends:
                return

    async def _ready(self) -> FarSide:
        """Return a connection to the host that waits for a request."""
        if self._far is not None and self._far.ended():
            self._far.abort()
            self._far = None
        if self._far is None:
            self._far = await self._connect()
            self._host = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)
        return self._far

    async def _answered(self, masker: Masker, spelled: Sequence[bytes]) -> bool:
        """Pass an answer on; return whether it came whole. `spelled`: what must not be in it."""
        assert self._far is not None
        event = await _next(self._host, self._far)
        while isinstance(event, h11.InformationalResponse):
            event = await _next(self._host, self._far)
        if not isinstance(event, h11.Response):
            raise _Odd(502, "the host ended without an answer")
        headers = _kept(event.headers)
        if spelled:
            headers = [field for field in headers if field[0] not in _LOGINS]
            if why := check_answer(headers, bytes(event.reason), spelled):
                raise _Odd(502, f"the host's answer {why}")
        chunked = any(name == b"transfer-encoding" for name, _ in event.headers)
        if not chunked:
            headers += [field for field in event.headers if field[0] == b"content-length"]
        await self._tell_cell(
            h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        )
        while True:
            event = await _next(self._host, self._far)
            if isinstance(event, h11.EndOfMessage):
                await self._pass(masker.finish())
                await self._tell_cell(h11.EndOfMessage())
                return True
            if not isinstance(event, h11.Data):
                raise OSError("the host ended within its answer")
            await self._pass(masker.feed(bytes(event.data)))

    async def _pass(self, data: bytes) -> None:
        if data:
            await self._tell_cell(h11.Data(data))

    async def _tell_cell(self, event: h11.Event) -> None:
        await self._near.write(self._cell.send(event) or b"")

    async def _answer(self, status: int, why: str) -> None:
        """Answer a request from here, where none was begun."""
        text = f"lockgate: {why}\n".encode()
        headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text))),
                   ("Connection", "close")]  # fmt: skip
        with contextlib.suppress(h11.LocalProtocolError, OSError, TimeoutError):
            if self._cell.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                await self._tell_cell(h11.Response(status_code=status, headers=headers))
                await self._tell_cell(h11.Data(text))
                await self._tell_cell(h11.EndOfMessage())


async def _next(connection: h11.Connection, side: Side) -> Any:
    """Return the next event of one side."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await side.read())
    return event


def _kept(headers: Any) -> Headers:
    """Return the headers that are about the message, not about its connection."""
    named = {word.strip().lower() for name, value in headers if name == b"connection"
             for word in value.split(b",")}  # fmt: skip
    dropped = _OF_CONNECTION | named
    return [(name, value) for name, value in headers if name not in dropped]


def _spelled(use: Use | None, secret: Secret | None) -> tuple[bytes, ...]:
    """Return what must not come back with an answer."""
    if use is None or secret is None:
        return ()
    return spellings(use.form, secret.user, secret.value)


def _gone(done: asyncio.Future[None], far: FarSide) -> None:
    if not done.cancelled() and done.exception() is not None:
        far.abort()  # the client is gone: nobody wants the answer
