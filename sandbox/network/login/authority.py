# SPDX-License-Identifier: Apache-2.0
"""The certificates with which a gateway stands for the hosts that get a credential, in one call.

The keys are made in the gateway's process and never leave it; the authority is good for these hosts
alone (name constraints), so that a program which trusts it trusts it for nothing else.
"""

from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PROTOCOL = "http/1.1"
"""The one that a client may choose by ALPN."""
_SKEW = datetime.timedelta(hours=1)
_LIFE = datetime.timedelta(days=2)
"""Longer than any call may take."""
_NO_USAGE = dict.fromkeys(
    ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
     "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Authority:
    """What a cell must trust, and how the gateway stands for each host."""

    certificate: str
    contexts: dict[str, ssl.SSLContext]
    """By the host's name."""


def make_authority(hosts: Iterable[str], now: datetime.datetime) -> Authority:
    """Return a new authority for hosts, by their names, which ends when a call has long ended."""
    names = sorted(set(hosts))
    limits = x509.NameConstraints([x509.DNSName(name) for name in names], None)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Lockgate, one call")])
    own = (
        _certificate(subject, subject, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**{**_NO_USAGE, "key_cert_sign": True}), critical=True)
        .add_extension(limits, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    contexts = {}
    for name in names:
        leaf = ec.generate_private_key(ec.SECP256R1())
        made = (
            _certificate(x509.Name([]), subject, leaf.public_key(), now)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**{**_NO_USAGE, "digital_signature": True}), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(leaf.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        contexts[name] = _context(leaf, made)
    return Authority(own.public_bytes(Encoding.PEM).decode(), contexts)


def far_context(certificates: str) -> ssl.SSLContext:
    """Return how a gateway looks at the true hosts: verified, by what this host trusts."""
    context = ssl.create_default_context(cadata=certificates)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([PROTOCOL])
    return context


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _context(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols([PROTOCOL])
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    memory = os.memfd_create("key", os.MFD_CLOEXEC)  # OpenSSL is given a key as a file alone
    try:
        os.write(memory, pem + certificate.public_bytes(Encoding.PEM))
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return context
