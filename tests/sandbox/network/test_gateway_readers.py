# SPDX-License-Identifier: Apache-2.0
"""What a gateway reads of a cell: questions for names, first messages of TLS, plain requests."""

from __future__ import annotations

import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.network import client_hello, dns, plain_http
from sandbox.network.addresses import refusal
from sandbox.network.book import PATTERN_NAMES, Book, Reach, merged


def asked(name: bytes, kind: int = dns.A, family: int = 1, header: bytes | None = None) -> bytes:
    """Return a question as a resolver sends it."""
    labels = b"".join(bytes((len(one),)) + one for one in name.split(b".") if one)
    first = header or struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0)
    return first + labels + b"\0" + struct.pack("!HH", kind, family)


def hello(name: str | None, alpn: list[str] | None = None) -> bytes:
    """Return the first message of a real TLS client."""
    context = ssl.create_default_context()
    context.check_hostname = False
    if alpn:
        context.set_alpn_protocols(alpn)
    out = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return out.read()


def with_extension(data: bytes, kind: int, body: bytes) -> bytes:
    """Return a first message with one more extension."""
    message = bytearray(data[5:])
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2], "big")
    at += 1 + message[at]
    added = struct.pack("!HH", kind, len(body)) + body
    total = int.from_bytes(message[at : at + 2], "big") + len(added)
    message[at : at + 2] = total.to_bytes(2, "big")
    message += added
    message[1:4] = (len(message) - 4).to_bytes(3, "big")
    return data[:3] + len(message).to_bytes(2, "big") + bytes(message)


def test_a_question_is_read_and_answered_with_the_address_of_its_name() -> None:
    question = dns.read_question(asked(b"Index.Example"))
    assert (question.name, question.kind, question.number) == ("index.example", dns.A, 7)
    reply = dns.answer(question, "127.1.0.1")
    assert reply[:4] == struct.pack("!HH", 7, 0x8180)
    assert reply[-4:] == bytes((127, 1, 0, 1))


def test_a_name_without_right_does_not_exist() -> None:
    reply = dns.answer(dns.read_question(asked(b"other.example")), None)
    assert reply[3] & 0xF == dns.NO_SUCH_NAME
    assert reply[6:8] == b"\0\0"


@pytest.mark.parametrize("kind", [dns.AAAA, 16, 65])
def test_of_a_name_with_right_nothing_but_its_address_is_said(kind: int) -> None:
    reply = dns.answer(dns.read_question(asked(b"a.example", kind)), "127.1.0.1")
    assert reply[3] & 0xF == dns.OK
    assert reply[6:8] == b"\0\0"


MALFORMED = {
    "nothing": b"",
    "a header alone": b"\0" * 12,
    "an answer": asked(b"a.b", header=struct.pack("!HHHHHH", 7, 0x8100, 1, 0, 0, 0)),
    "an update": asked(b"a.b", header=struct.pack("!HHHHHH", 7, 0x2800, 1, 0, 0, 0)),
    "two questions": asked(b"a.b", header=struct.pack("!HHHHHH", 7, 0x0100, 2, 0, 0, 0)),
    "no question": asked(b"a.b", header=struct.pack("!HHHHHH", 7, 0x0100, 0, 0, 0, 0)),
    "a pointer": struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
    "a label that ends too early": struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 0) + b"\x3fabc",
    "no type": struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 0) + b"\1a\0\0",
    "no end of the name": struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 0) + b"\1a" * 20,
    "another class": asked(b"a.b", family=3),
    "a label with a dot": struct.pack("!HHHHHH", 7, 0, 1, 0, 0, 0) + b"\3a.b\0\0\1\0\1",
    "bytes that are no text": asked(b"\xff\xfe.b"),
    "a name that is too long": asked(b".".join([b"a" * 60] * 5)),
    "a message that is too long": asked(b"a.b") + b"\0" * 600,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_question_gets_an_error_and_no_address(data: bytes) -> None:
    with pytest.raises(dns.Malformed):
        dns.read_question(data)
    reply = dns.refuse(data)
    assert reply == b"" or (len(reply) == 12 and reply[3] & 0xF == dns.FORMAT_ERROR)


@given(st.binary(max_size=600))
def test_any_bytes_are_a_question_or_malformed(data: bytes) -> None:
    try:
        question = dns.read_question(data)
    except dns.Malformed:
        return
    assert question.name == question.name.lower()
    assert len(dns.answer(question, None)) == 12 + len(question.raw)


@pytest.mark.parametrize("alpn", [None, ["h2", "http/1.1"]])
def test_the_name_of_a_real_client_is_read_whole_and_in_pieces(alpn: list[str] | None) -> None:
    data = hello("Index.example", alpn)
    assert client_hello.server_name(data) == "index.example"
    for end in range(len(data)):
        assert client_hello.server_name(data[:end]) is None


def test_a_first_message_in_several_records_is_read() -> None:
    message = hello("index.example")[5:]
    parts = [message[at : at + 7] for at in range(0, len(message), 7)]
    data = b"".join(b"\x16\x03\x01" + len(one).to_bytes(2, "big") + one for one in parts)
    assert client_hello.server_name(data) == "index.example"


def _twice(name: str) -> bytes:
    entry = b"\0" + len(name).to_bytes(2, "big") + name.encode()
    return (2 * len(entry)).to_bytes(2, "big") + entry + entry


REFUSED_HELLOS = {
    "no name": hello(None),
    "an encrypted name": with_extension(hello("a.example"), 0xFE0D, b"\0" * 20),
    "a second list of names": with_extension(hello("a.example"), 0, _twice("b.example")[2:]),
    "two names": with_extension(hello(None), 0, _twice("a.example")),
    "a name of another kind": with_extension(hello(None), 0, b"\0\4\1\0\1a"),
    "a name that is not ASCII": with_extension(hello(None), 0, b"\0\5\0\0\2\xc3\xa4"),
    "more behind it": hello("a.example")[:3] + b"\0\x04" + b"\1\0\0\0",
    "another message": b"\x16\x03\x01\0\4\2\0\0\0",
    "plain text": b"GET / HTTP/1.1\r\n",
    "an empty record": b"\x16\x03\x01\0\0",
    "an alert": b"\x15\x03\x01\0\2\1\0",
    "SSL 2": b"\x80\x2e\x01\0\2",
    "a length beyond all measure": b"\x16\x03\x01\0\4\1\xff\xff\xff",
}


@pytest.mark.parametrize("data", REFUSED_HELLOS.values(), ids=REFUSED_HELLOS)
def test_a_first_message_whose_name_cannot_be_checked_is_refused(data: bytes) -> None:
    with pytest.raises(client_hello.Malformed):
        client_hello.server_name(data)


@given(st.binary(max_size=400))
def test_any_bytes_have_a_name_or_none_or_are_malformed(data: bytes) -> None:
    try:
        found = client_hello.server_name(data)
    except client_hello.Malformed:
        return
    assert found is None or isinstance(found, str)


def test_a_plain_request_is_passed_on_and_told_to_be_the_last() -> None:
    data = (
        b"POST /x HTTP/1.1\r\nHost: A.example:8080\r\nConnection: keep-alive, upgrade\r\n"
        b"Upgrade: websocket\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n"
    )
    found = plain_http.read_request(data)
    assert found is not None
    request, rest = found
    assert (request.host, request.body) == ("a.example", 5)
    assert request.head == (
        b"POST /x HTTP/1.1\r\nHost: A.example:8080\r\nContent-Length: 5\r\n"
        b"Connection: close\r\n\r\n"
    )
    assert rest.startswith(b"hello")


REFUSED_REQUESTS = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
    "a whole address": b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT b:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    "a length with a sign": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
    "pieces": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    "a header with a blank": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    "a bare newline": b"GET / HTTP/1.1\r\nX: 1\nHost: b\r\nHost: a\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no HTTP": b"hello there\r\n\r\n",
    "a head without an end": b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000,
}


@pytest.mark.parametrize("data", REFUSED_REQUESTS.values(), ids=REFUSED_REQUESTS)
def test_a_request_that_servers_could_read_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(plain_http.Malformed):
        plain_http.read_request(data)


ADDRESSES = {
    "loopback": ("127.0.0.1", False, False),
    "another loopback": ("127.9.9.9", False, False),
    "this host": ("0.0.0.0", False, False),
    "link-local": ("169.254.169.254", False, False),
    "a metadata service": ("100.100.100.200", False, False),
    "multicast": ("224.0.0.1", False, False),
    "broadcast": ("255.255.255.255", False, False),
    "private 10": ("10.0.0.1", False, True),
    "private 172": ("172.17.0.1", False, True),
    "private 192": ("192.168.1.1", False, True),
    "carrier": ("100.64.0.1", False, True),
    "public": ("93.184.216.34", True, True),
    "six loopback": ("::1", False, False),
    "six link-local": ("fe80::1", False, False),
    "six with a zone": ("fe80::1%eth0", False, False),
    "six private": ("fd12:3456::1", False, True),
    "six metadata": ("fd00:ec2::254", False, False),
    "six mapped": ("::ffff:127.0.0.1", False, False),
    "six mapped private": ("::ffff:10.0.0.1", False, False),
    "six mapped public": ("::ffff:93.184.216.34", False, False),
    "six compatible": ("::7f00:1", False, False),
    "six to four": ("2002:7f00:1::", False, False),
    "six translated loopback": ("64:ff9b::7f00:1", False, False),
    "six translated private": ("64:ff9b::a00:1", False, True),
    "six translated public": ("64:ff9b::5db8:d822", True, True),
    "six public": ("2606:2800:220:1:248:1893:25c8:1946", True, True),
    "a number": ("2130706433", False, False),
    "hexadecimal": ("0x7f000001", False, False),
    "octal": ("0177.0.0.1", False, False),
    "a short form": ("127.1", False, False),
    "a name": ("localhost", False, False),
    "nothing": ("", False, False),
}


@pytest.mark.parametrize("text, public, private", ADDRESSES.values(), ids=ADDRESSES)
def test_which_addresses_a_name_may_lead_to(text: str, public: bool, private: bool) -> None:
    assert (refusal(text, private=False) == "") is public
    assert (refusal(text, private=True) == "") is private


def test_each_name_has_an_address_of_its_own_and_nothing_else_has_one() -> None:
    book = Book([Reach("a.example", (443, 80)), Reach("b.example", (443,))])
    first, second = book.address("a.example"), book.address("b.example")
    assert first != second
    assert book.address("c.example") is None
    assert book.address("x.a.example") is None
    assert book.behind("127.1.9.9") is None
    assert first is not None
    found = book.behind(first)
    assert found is not None
    assert found[0] == "a.example"
    heard = book.listeners()
    assert heard[0] == ("udp", "127.0.0.1", 53)
    assert set(heard[1:]) == {("tcp", first, 443), ("tcp", first, 80), ("tcp", second, 443)}


def test_a_pattern_stands_for_one_label_and_for_so_many_names() -> None:
    book = Book([Reach("*.corp.example", (443,))])
    names = [f"n{number}.corp.example" for number in range(PATTERN_NAMES + 1)]
    addresses = [book.address(one) for one in names]
    assert len(set(addresses[:-1])) == PATTERN_NAMES
    assert addresses[-1] is None
    assert book.address(names[0]) == addresses[0]
    assert book.address("corp.example") is None
    assert book.address("a.b.corp.example") is None
    assert {one[1] for one in book.listeners()[1:]} == set(addresses[:-1])


def test_reaches_of_one_name_are_joined() -> None:
    found = merged([Reach("*.a.b", (1,)), Reach("a.b", (443,)), Reach("a.b", (80, 443))])
    assert found == (Reach("a.b", (443, 80)), Reach("*.a.b", (1,)))
    found = merged([Reach("a.b", (443,)), Reach("a.b", (8443,), private=(8443,))])
    assert found == (Reach("a.b", (443, 8443), private=(8443,)),)


CARRYING = ("6c65616b6564" * 3, "a" * 21, "aGVsbG8gd29ybGQgaGVsbG8".lower(), "k7-" * 14,
            "12345-678901")  # fmt: skip
PLAIN_LABELS = ("api", "bucket-eu-central-1", "d111111abcdef8", "my_service-staging-2026-11-30",
                "raw", "xn--bcher-kva")  # fmt: skip


def test_a_label_that_could_carry_something_out_stands_for_no_pattern() -> None:
    book = Book([Reach("*.corp.example", (443,)), Reach("a" * 30 + ".example", (443,))])
    assert [one for one in CARRYING if book.address(f"{one}.corp.example")] == []
    assert all(book.address(f"{one}.corp.example") for one in PLAIN_LABELS)
    assert book.address("a" * 30 + ".example") is not None  # a person wrote it out
