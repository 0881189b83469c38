# SPDX-License-Identifier: Apache-2.0
"""Which variables of whoever starts the supervisor it goes on with. Pure but for links.

INVARIANT (P7, starter): an agent may be the one whose call starts the supervisor that decides for
all agents. What its variables would make other programs load, run, trust or send elsewhere does not
pass, nor does a variable that leads into a workspace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sandbox.network.login.reaches import Ground

_LEFT_OUT = re.compile(
    r"OTEL_.*"  # where spans go, and what they say
    r"|.*_PROXY"  # where what is sent goes
    r"|SSL_CERT_.*|SSLKEYLOGFILE|OPENSSL_.*|(?:REQUESTS|CURL)_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
    r"|NODE_TLS_REJECT_UNAUTHORIZED|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS"  # who is believed
    r"|LD_.*|DYLD_.*|GLIBC_TUNABLES|GCONV_PATH"  # what any program loads
    r"|PYTHON(?!PATH$).*|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|NODE_OPTIONS|NODE_PATH"
    r"|BASH_ENV|BASH_FUNC_.*|ENV|SHELLOPTS|BASHOPTS"  # what a script runs before its first line
    r"|GIT_(?!CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)$).*",  # what git runs, and writes to
    re.IGNORECASE | re.DOTALL,
)
"""Names, in any case. `relaunch.environment` says what becomes of PYTHONPATH."""


def kept_variables(
    given: Mapping[str, str], workspaces: Iterable[str], home: str
) -> dict[str, str]:
    """Return the variables that the supervisor begins with; of `PATH` the folders that no agent
    writes. `workspaces` are where agents write, `home` is what `~` means."""
    ground = Ground(workspaces, home)
    kept = {
        name: value
        for name, value in given.items()
        if not _LEFT_OUT.fullmatch(name) and (name == "PATH" or not ground.mentions(value))
    }
    if "PATH" in kept:
        kept["PATH"] = ground.search_path(kept["PATH"])
    return kept
