# SPDX-License-Identifier: Apache-2.0
"""The certificates that this host trusts, for programs in a cell that may reach a name.

TLS stays end to end: a program in the cell checks the far side itself, by what its host trusts.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

FILE = ".lockgate-trust.pem"
"""Its name in the cell's home."""
MOST_BYTES = 900_000
"""A home that commands only read is no larger than 1 MiB."""
VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
             "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "npm_config_cafile")  # fmt: skip
"""Where programs are told of it."""
_BEGIN = "-----BEGIN CERTIFICATE-----"


def certificates(given: Mapping[str, str] | None = None) -> str:
    """Return the certificates that this host trusts; nothing where they are not in one file."""
    values = os.environ if given is None else given
    paths = ssl.get_default_verify_paths()
    for path in (values.get("SSL_CERT_FILE"), paths.cafile, paths.openssl_cafile, *_USUAL):
        if not path:
            continue
        try:
            with Path(path).open(encoding="ascii", errors="ignore") as file:
                text = file.read(MOST_BYTES + 1)
        except OSError:
            continue
        if _BEGIN in text and len(text) <= MOST_BYTES:
            return _alone(text)
    return ""


_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
          "/etc/ssl/cert.pem")  # fmt: skip


def _alone(text: str) -> str:
    """Return the certificates of a file without anything else that stands there (a private key)."""
    out = []
    for part in text.split(_BEGIN)[1:]:
        body, end, _ = part.partition("-----END CERTIFICATE-----")
        if end:
            out.append(f"{_BEGIN}{body}{end}\n")
    return "".join(out)
