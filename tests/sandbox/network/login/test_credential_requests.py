# SPDX-License-Identifier: Apache-2.0
"""What a gateway does with requests to a host that gets a credential: real TLS on loopback."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import html
import json
import re
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sandbox.network.book import Book, Reach
from sandbox.network.carrier import Carrier, Limits
from sandbox.network.login.authority import far_context, make_authority
from sandbox.network.login.broker import Broker
from sandbox.network.login.exchange import LoginExchange
from sandbox.network.login.spellings import Masker, spellings
from sandbox.network.login.uses import Use
from tests.sandbox.network.tls_servers import TestAuthority

NAME, SECRET = "code.example", "s3cret-of-a-person"
BASIC = base64.b64encode(f"me:{SECRET}".encode()).decode()
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FAIR = Limits(open=8, total=100, sent=1 << 22, received=1 << 22)


class FarServer:
    """A server that keeps what it is sent, and answers each piece with the next of its answers."""

    def __init__(self, *answers: bytes) -> None:
        self.heard: list[bytes] = []
        self.answers = list(answers) or [OK]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests that have come whole."""
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                self.heard.append(data)
                writer.write(self.answers[min(len(self.heard), len(self.answers)) - 1])
                await writer.drain()
        writer.close()

    @property
    def text(self) -> str:
        """All that it was sent."""
        return b"".join(self.heard).decode("latin-1")


class Cell:
    """Connects as a program in the cell does."""

    def __init__(self, address: str, port: int, certificate: str) -> None:
        self._place = (address, port)
        self.trust = ssl.create_default_context(cadata=certificate)
        self.told: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []

    async def talk(self, data: bytes, *, sni: str = NAME) -> bytes:
        """Send, and return all that comes until the end."""
        reader, writer = await asyncio.open_connection(
            *self._place, ssl=self.trust, server_hostname=sni
        )
        writer.write(data)
        return await _until_end(reader)

    async def ask(self, lines: str, body: bytes = b"") -> bytes:
        """Send one request with `Connection: close` and return the answer."""
        head = f"{lines}\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode("latin-1")
        return await self.talk(head + body)

    @property
    def used(self) -> list[str]:
        """The credentials that were added, request by request."""
        return [one["used"] for one in self.said if "used" in one]

    async def end(self) -> str:
        """Return how the first connection ended."""
        async with asyncio.timeout(30):
            while not self.told:
                await asyncio.sleep(0.01)
        return str(self.told[0]["end"])


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    out = b""
    with contextlib.suppress(OSError):
        while more := await reader.read(1 << 16):
            out += more
    return out


def use(**fields: Any) -> Use:
    """Return a credential, as a gateway knows it."""
    said = {"id": "code", "hosts": (), "form": "basic", "header": "", "methods": ("GET", "HEAD"),
            "paths": (), "push": (), "fetch": False, **fields}  # fmt: skip
    return Use(**said)


@contextlib.asynccontextmanager
async def cell(
    tmp_path: Path,
    far: FarServer,
    *uses: Use,
    served: str = NAME,
    problem: str = "",
    trusted: bool = True,
) -> AsyncIterator[Cell]:
    """Give a cell's way to a host whose requests get credentials."""
    owner = TestAuthority(tmp_path)
    server = await asyncio.start_server(far.serve, "127.0.0.1", 0, ssl=owner.context(served))
    port = server.sockets[0].getsockname()[1]
    book = Book([Reach(NAME, (port,), address="127.0.0.1")])
    address = book.address(NAME)
    assert address is not None
    own = make_authority([NAME], datetime.datetime.now(datetime.UTC))
    made = Cell(address, port, own.certificate)

    def say(**what: Any) -> None:
        made.said.append(what)
        if wish := what.get("wants"):
            told = {"problem": problem} if problem else {"value": SECRET, "user": "me"}
            broker.hear({**wish, **told})

    placed = [replace(one, hosts=(f"{NAME}:{port}",)) for one in uses or (use(),)]
    far_side = far_context((owner if trusted else TestAuthority(tmp_path)).certificate)
    broker = Broker(placed, own.contexts, far_side, LoginExchange, say)
    carrier = Carrier(book, FAIR, made.told.append, lambda _why: None, broker)
    near = await asyncio.start_server(carrier.take, address, port)
    try:
        yield made
    finally:
        near.close()
        await carrier.close()
        server.close()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine within generous bounds."""

    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(bounded())


def test_a_request_gets_the_credential_in_place_of_its_own(tmp_path: Path) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far) as one:
            answer = await one.ask("GET /x?y=1 HTTP/1.1\r\nAuthorization: Basic b3duOm93bg==")
            assert answer.endswith(b"\r\n\r\nok")
            assert far.text.startswith("GET /x?y=1 HTTP/1.1\r\nHost: code.example:")
            assert [line for line in far.text.split("\r\n") if line.lower().startswith("auth")] == [
                f"Authorization: Basic {BASIC}"
            ]
            assert one.used == ["code"]
            assert await one.end() == "ended"

    run(go())


@pytest.mark.parametrize("form, header, line", [
    ("bearer", "", f"Authorization: Bearer {SECRET}"),
    ("header", "Private-Token", f"Private-Token: {SECRET}"),
])  # fmt: skip
def test_other_forms(tmp_path: Path, form: str, header: str, line: str) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(form=form, header=header)) as one:
            await one.ask("GET /x HTTP/1.1\r\nprivate-TOKEN: mine\r\nX-HTTP-Method-Override: PUT")
            assert line in far.text
            assert ("mine" in far.text) == (form != "header")
            assert "Override" not in far.text

    run(go())


def test_several_requests_of_one_connection(tmp_path: Path) -> None:
    """One after the other, also those that come at once; each is counted."""

    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(methods=("GET", "POST"))) as one:
            first = f"POST /a HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 3\r\n\r\nabc".encode()
            second = f"GET /b HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode()
            answer = await one.talk(first + second)
            assert answer.count(b"200 OK") == 2
            assert far.text.index("POST /a") < far.text.index("abc") < far.text.index("GET /b")
            assert far.text.count(BASIC) == 2
            assert one.used == ["code", "code"]
            assert [one for one in one.said if "wants" in one] == [
                {"wants": {"id": "code", "host": one.said[0]["wants"]["host"]}}
            ]

    run(go())


REFUSED = {
    "another Host": (b"GET / HTTP/1.1\r\nHost: other.example\r\n\r\n", b"421"),
    "two Hosts": (b"GET / HTTP/1.1\r\nHost: code.example\r\nHost: code.example\r\n\r\n", b"400"),
    "no Host": (b"GET / HTTP/1.0\r\n\r\n", b"421"),
    "an absolute target": (
        b"GET https://other.example/ HTTP/1.1\r\nHost: code.example\r\n\r\n", b"400"),
    "CONNECT": (b"CONNECT other.example:443 HTTP/1.1\r\nHost: code.example\r\n\r\n", b"405"),
    "TRACE": (b"TRACE / HTTP/1.1\r\nHost: code.example\r\n\r\n", b"405"),
    "Upgrade": (b"GET / HTTP/1.1\r\nHost: code.example\r\nConnection: upgrade\r\n"
                b"Upgrade: websocket\r\n\r\n", b"400"),
    "two lengths": (b"GET / HTTP/1.1\r\nHost: code.example\r\nContent-Length: 1\r\n"
                    b"Content-Length: 2\r\n\r\nab", b"400"),
    "a length and pieces": (b"GET / HTTP/1.1\r\nHost: code.example\r\nContent-Length: 5\r\n"
                            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
    "another coding": (b"GET / HTTP/1.1\r\nHost: code.example\r\n"
                       b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"501"),
    "a folded header": (b"GET / HTTP/1.1\r\nHost: code.example\r\nA : b\r\n\r\n", b"400"),
    "a head without end": (b"GET / HTTP/1.1\r\nHost: code.example\r\nA: " + b"b" * 300_000, b"431"),
    "no HTTP": (b"SECRET\r\n\r\n", b"400"),
    "a push": (b"GET /r/info/refs?service=git-receive-pack HTTP/1.1\r\nHost: code.example\r\n\r\n",
               b"403"),
    "a push in other words": (b"POST /r/git%2Dreceive%2dpack HTTP/1.1\r\nHost: code.example\r\n"
                              b"Content-Length: 0\r\n\r\n", b"403"),
}  # fmt: skip


@pytest.mark.parametrize("data, status", REFUSED.values(), ids=REFUSED)
def test_what_is_odd_reaches_nobody(tmp_path: Path, data: bytes, status: bytes) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(methods=("GET", "POST", "TRACE"))) as one:
            answer = await one.talk(data)
            assert answer.startswith(b"HTTP/1.1 " + status)
            assert b"lockgate: " in answer
            assert far.heard == []
            assert (await one.end()).startswith("refused: ")
            assert one.used == []

    run(go())


NOT_COVERED = {
    "a method that is not named": ("DELETE /team/x", {}),
    "another path": ("GET /other/x", {"paths": ("/team/",)}),
    "a path that only begins alike": ("GET /teams", {"paths": ("/team/",)}),
    "a way up": ("GET /team/../other", {"paths": ("/team/",)}),
    "a way up in other words": ("GET /team/%2e%2e/other", {"paths": ("/team/",)}),
    "a way up behind a slash": ("GET /team/..%2fother", {"paths": ("/team/",)}),
    "a way up behind a parameter": ("GET /team/..;/other", {"paths": ("/team/",)}),
    "a double encoding": ("GET /team/%252e%252e/other", {"paths": ("/team/",)}),
    "an empty segment": ("GET /team//other", {"paths": ("/team/",)}),
    "a post that is no fetch": ("POST /team/git-upload-pack", {"fetch": True}),
    "a fetch where it is not for git": (
        "POST /team/git-upload-pack HTTP/1.1\r\nContent-Length: 0\r\n"
        "Content-Type: application/x-git-upload-pack-request\r\nX-Is:",
        {},
    ),
    "other letters": ("GET /team/%e3%80%82%e3%80%82/x", {"paths": ("/team/",)}),
    "bytes that are no letters": ("GET /team/%c0%ae%c0%ae/x", {"paths": ("/team/",)}),
}


@pytest.mark.parametrize("line, fields", NOT_COVERED.values(), ids=NOT_COVERED)
def test_a_request_that_it_is_not_for_goes_without(
    tmp_path: Path, line: str, fields: dict[str, Any]
) -> None:
    """The positive control is the second request."""

    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(**fields)) as one:
            asked = line if "HTTP/1.1" in line else f"{line} HTTP/1.1"
            await one.ask(f"{asked}\r\nAuthorization: Basic b3duOm93bg==")
            assert "b3duOm93bg==" in far.text
            assert (BASIC in far.text, one.used) == (False, [])
            await one.ask("GET /team/x%2fy HTTP/1.1")
            assert (BASIC in far.text, one.used) == (True, ["code"])

    run(go())


def test_a_fetch_of_git_is_covered_whatever_the_methods(tmp_path: Path) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(methods=(), fetch=True)) as one:
            await one.ask("GET /r.git/info/refs?service=git-upload-pack HTTP/1.1")
            post = "POST /r.git/git-upload-pack HTTP/1.1\r\nContent-Length: 4\r\nContent-Type: "
            await one.ask(f"{post}application/x-git-upload-pack-request", b"0000")
            assert one.used == ["code", "code"]

    run(go())


LEFT_BEHIND = ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Host", "X-Forwarded-Prefix", "Range",
               "Forwarded", "Request-Range", "X-HTTP-Method", "X-Original-Host")  # fmt: skip


def test_no_header_that_changes_what_is_asked_goes_beside_a_credential(tmp_path: Path) -> None:
    """The control: without a credential they are the call's own matter."""

    async def go() -> None:
        far = FarServer()
        lines = "".join(f"\r\n{name}: mine" for name in LEFT_BEHIND)
        async with cell(tmp_path, far, use(paths=("/team/",))) as one:
            await one.ask(f"GET /other HTTP/1.1{lines}")
            assert far.text.count(": mine") == len(LEFT_BEHIND)
            far.heard.clear()
            await one.ask(f"GET /team/x HTTP/1.1{lines}\r\nX-Own: yours")
            assert "x-own: yours" in far.text
            assert ": mine" not in far.text
            assert BASIC in far.text

    run(go())


@pytest.mark.parametrize("name", ["X_HTTP_Method_Override", "transfer_encoding", "Content_Length"])
def test_no_header_that_a_server_may_take_for_another_goes_beside_one(
    tmp_path: Path, name: str
) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(paths=("/team/",))) as one:
            refused = await one.ask(f"GET /team/x HTTP/1.1\r\n{name}: 5")
            assert refused.startswith(b"HTTP/1.1 400")
            assert b"underscore" in refused
            assert far.heard == []
            assert (await one.ask(f"GET /other HTTP/1.1\r\n{name}: 5")).endswith(b"ok")

    run(go())


ECHOES = {
    "in a header's name": f"200 OK\r\nX-{SECRET}: 1".encode(),
    "in its first line": f"200 {SECRET}".encode(),
    "in a text that is encoded": b"200 OK\r\nContent-Encoding: gzip\r\nContent-Type: text/html",
    "in JSON that is encoded": b"200 OK\r\nContent-Encoding: x\r\nContent-Type: text/json; a=b",
    "in a redirect": f"302 Found\r\nLocation: https://other.example/?t={SECRET}".encode(),
    "in a redirect, encoded": f"302 Found\r\nLocation: https://other.example/{BASIC}".encode(),
    "in a header": f"200 OK\r\nX-You-Sent: Basic {BASIC}".encode(),
}


@pytest.mark.parametrize("told", ECHOES.values(), ids=ECHOES)
def test_a_secret_comes_back_in_no_header(tmp_path: Path, told: bytes) -> None:
    async def go() -> None:
        far = FarServer(b"HTTP/1.1 " + told + b"\r\nContent-Length: 0\r\n\r\n")
        async with cell(tmp_path, far) as one:
            answer = await one.ask("GET /x HTTP/1.1")
            assert answer.startswith(b"HTTP/1.1 502")
            assert SECRET.encode() not in answer
            assert BASIC.encode() not in answer

    run(go())


def test_a_secret_in_an_answer_is_masked_and_no_login_comes_with_it(tmp_path: Path) -> None:
    async def go() -> None:
        body = f"you sent {SECRET}, {BASIC}, {SECRET[:5]}".encode()
        pieces = b"".join(b"1\r\n" + body[at : at + 1] + b"\r\n" for at in range(len(body)))
        head = b"HTTP/1.1 200 OK\r\nSet-Cookie: session=1\r\nSet-Cookie2: session=2\r\n"
        for answer in (
            head + b"Content-Length: %d\r\n\r\n" % len(body) + body,
            head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n",
        ):
            async with cell(tmp_path, FarServer(answer)) as one:
                got = await one.ask("GET /x HTTP/1.1")
                assert SECRET.encode() not in got
                assert BASIC.encode() not in got
                assert b"Cookie" not in got
                assert got.replace(b"\r\n", b"").count(b"*") >= len(SECRET) + len(BASIC)
                assert SECRET[:5].encode() in got.replace(b"1\r\n", b"").replace(b"\r\n", b"")

    run(go())


def test_an_archive_that_is_encoded_comes_back(tmp_path: Path) -> None:
    async def go() -> None:
        told = b"Content-Encoding: gzip\r\nContent-Type: application/x-tar\r\n"
        async with cell(tmp_path, FarServer(OK.replace(b"Con", told + b"Con", 1))) as one:
            assert (await one.ask("GET /x.tgz HTTP/1.1")).endswith(b"ok")

    run(go())


VALUE = "abc/def+ghij?>klm=&x~\"'"
JOINED = base64.b64encode(f"me:{VALUE}".encode()).decode()
SPELLED = {
    "base64": JOINED,
    "base64 without its end": JOINED.rstrip("="),
    "base64 of an address": JOINED.replace("=", "%3D").replace("+", "%2B").replace("/", "%2f"),
    "base64 for addresses": JOINED.replace("+", "-").replace("/", "_"),
    "base64 in JSON": JOINED.replace("/", "\\/"),
    "base64 in JSON of a page": JOINED.replace("=", "\\u003d"),
    "base64 in a page": JOINED.replace("=", "&#x3D;").replace("/", "&#x2F;"),
    "JSON": json.dumps(VALUE)[1:-1],
    "JSON with slashes": json.dumps(VALUE)[1:-1].replace("/", "\\/"),
    "a page": html.escape(VALUE),
    "a page, its text": html.escape(VALUE, quote=False),
    "an address": quote(VALUE, safe=""),
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_each_usual_spelling_is_masked(spelled: str) -> None:
    for size in (1, 7, 1000):
        masker = Masker(spellings("basic", "me", VALUE))
        text = f"before {spelled} after".encode()
        parts = [masker.feed(text[at : at + size]) for at in range(0, len(text), size)]
        masked = (b"".join(parts) + masker.finish()).decode()
        assert masked.startswith("before *")
        assert masked.endswith(" after")
        assert len(re.sub(r"[*]", "", masked)) <= len("before  after") + 6  # `=` at the end stays


HOSTILE = {
    "headers without end": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 300_000,
    "no HTTP": b"SSH-2.0-x\r\n\r\n",
    "two answers at once": OK + OK,
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a length in two ways": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_host_harms_its_own_connection_alone(tmp_path: Path, answer: bytes) -> None:
    async def go() -> None:
        far = FarServer(answer, answer, OK)
        async with cell(tmp_path, far) as one:
            for _ in range(2):
                got = await one.ask("GET /x HTTP/1.1")
                assert len(re.findall(rb"HTTP/1\.1 \d", got)) == 1
                assert got.startswith(b"HTTP/1.1 502") or got.endswith(b"\r\n\r\nok")
            assert (await one.ask("GET /x HTTP/1.1")).endswith(b"\r\n\r\nok")

    run(go())


@pytest.mark.parametrize("how, why", [
    ({"served": "other.example"}, "its certificate is not trusted here"),
    ({"trusted": False}, "its certificate is not trusted here"),
    ({"problem": "`x` ended with status 1"}, "the credential `code` cannot be read"),
])  # fmt: skip
def test_no_secret_goes_where_the_host_does_not_prove_itself(
    tmp_path: Path, how: dict[str, Any], why: str
) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, **how) as one:
            answer = await one.ask("GET /x HTTP/1.1")
            assert answer.startswith(b"HTTP/1.1 502")
            assert why in answer.decode()
            assert far.heard == []
            assert why in await one.end()
            assert b"status 1" not in answer

    run(go())


def pkt(*lines: str) -> bytes:
    """Return what a push would change, as git writes it."""
    return b"".join(f"{len(one) + 4:04x}{one}".encode() for one in lines) + b"0000"


ZERO, ONE = "0" * 40, "1" * 40
PUSHES: dict[str, tuple[bytes, str]] = {
    "a branch that is covered": (
        pkt(f"{ZERO} {ONE} refs/heads/agent/x\0 report-status") + b"PACK" * 20, ""),
    "a shallow one": (pkt(f"shallow {ONE}", f"{ZERO} {ONE} refs/heads/agent/x\0"), ""),
    "nothing, to try": (b"0000", ""),
    "another branch": (pkt(f"{ZERO} {ONE} refs/heads/main\0"), "`refs/heads/main`"),
    "another one beside": (
        pkt(f"{ZERO} {ONE} refs/heads/agent/x\0", f"{ZERO} {ONE} refs/heads/main"), "main`"),
    "a tag": (pkt(f"{ZERO} {ONE} refs/tags/agent/x\0"), "refs/tags"),
    "a signed one": (pkt("push-cert\0x"), "cannot be read"),
    "no end": (pkt(f"{ZERO} {ONE} refs/heads/agent/x\0")[:-4], "cannot be read"),
    "no lines": (b"PACK" + bytes(40), "cannot be read"),
    "far too many": (
        b"".join(pkt(f"{ZERO} {ONE} refs/heads/agent/{n:09}")[:-4] for n in range(4000)),
        "more than can be looked at"),
}  # fmt: skip


@pytest.mark.parametrize("body, why", PUSHES.values(), ids=PUSHES)
def test_a_push_is_held_to_its_branches(tmp_path: Path, body: bytes, why: str) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far, use(push=("refs/heads/agent/*",))) as one:
            answer = await one.ask(
                "POST /r.git/git-receive-pack HTTP/1.1\r\nExpect: 100-continue\r\n"
                f"Content-Length: {len(body)}\r\n"
                "Content-Type: application/x-git-receive-pack-request",
                body,
            )
            if why:
                assert b"HTTP/1.1 403" in answer
                assert why in answer.decode()
                assert (far.heard, one.used) == ([], [])
            else:
                assert answer.startswith(b"HTTP/1.1 100")
                assert answer.endswith(b"\r\n\r\nok")
                assert body in b"".join(far.heard)
                assert one.used == ["code"]

    run(go())


def test_another_name_in_tls_and_plain_http_lead_nowhere(tmp_path: Path) -> None:
    async def go() -> None:
        far = FarServer()
        async with cell(tmp_path, far) as one:
            with pytest.raises(OSError):
                await one.talk(b"", sni="other.example")
            reader, writer = await asyncio.open_connection(*one._place)
            writer.write(f"GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
            assert await _until_end(reader) == b""
            writer.close()
            assert far.heard == []
            ends = {str(told["end"]) for told in one.told}
            assert ends == {"refused: it names another host than the one it goes to",
                            "refused: a credential goes over TLS alone"}  # fmt: skip

    run(go())


def test_its_authority_is_good_for_its_hosts_alone(tmp_path: Path) -> None:
    made = make_authority(["code.example"], datetime.datetime.now(datetime.UTC))
    other = make_authority(["other.example"], datetime.datetime.now(datetime.UTC))
    trust = ssl.create_default_context(cadata=made.certificate)
    checks: list[Callable[[], Any]] = []
    for name, context in (*made.contexts.items(), *other.contexts.items()):
        near, far = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust.wrap_bio(near, far, server_hostname=name)
        server = context.wrap_bio(far, near, server_side=True)
        checks.append(lambda c=client, s=server: _shaken(c, s))  # type: ignore[misc]
    assert checks[0]() == "http/1.1"
    with pytest.raises(ssl.SSLCertVerificationError):
        checks[1]()


def _shaken(client: ssl.SSLObject, server: ssl.SSLObject) -> str | None:
    for _ in range(4):
        for one in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                one.do_handshake()
    return "http/1.1" if server.version() else None
