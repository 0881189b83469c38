# SPDX-License-Identifier: Apache-2.0
"""Files that a variable of the environment makes a program write (`COVERAGE_FILE`, `OUT_DIR`, ...).

Told by the variable's name, and only for values that name something below the place where the call
stands: caches and logs elsewhere are the cell's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from policy.facts import How
from policy.values.partial import HOLE

if TYPE_CHECKING:
    from policy.shell.interpreter import Shell

_OUTPUT = re.compile(
    r"(?i)(?:^|_)(?:cov(?:erage)?|coverdir|log(?:s|file|dir|path)?|out(?:put|file|dir|path)?|reports?"
    r"|trace\w*|prof(?:ile|iler)?|dump|cache(?:dir)?|results?|dest(?:dir)?|tmp(?:dir)?|temp(?:dir|root)?"
    r"|temproot|hist(?:ory|file)?|junit|xml|html|json|sarif|har|pycacheprefix|prefix|save|record|export"
    r"|snapshot|artifacts?|install|download|target_dir|work_dir|home|bin|mocha_file|state|db|cov_\w+|redirect\w*)(?:_|$)|^o$"
    r"|coverdir|cache$|prof$|gobin|histfile|pycacheprefix|tmpdir|destdir|logfile|outfile|outdir"
)
"""Names of variables that name what is written."""
_INPUT = re.compile(
    r"(?i)(?:^|_)(?:config(?:ure)?|rc|rcfile|conf|input|src|source|schema|ini|template|url|uri|host"
    r"|level|format|style|name|type|mode|reporter|options?|pythonpath|classpath|env_file|manifest)(?:_file|_path)?$"
)
"""... and of those that name something else."""
_PATH = re.compile(r"(?=[^\s]*[./])[\w.@%+][\w./@%+-]*")
_LONGEST = 512
_OPTION = re.compile(r"[:;,\s]*(?:-{1,2})?(?:XX:)?([\w.-]++)[=:]([^\s:;,]+)")
"""A setting in a list of them: `log_path=a:b=c`."""


def record(shell: Shell, name: str, value: str) -> None:
    """Record what a program that is started with a variable writes because of it."""
    for path in _named(name[:_LONGEST], value):
        inside = path.removeprefix(f"{shell.state.place}/")
        if HOLE not in path and _PATH.fullmatch(inside) and not inside.startswith(".."):
            shell.touch(How.WRITE, path, program=name)


def _named(name: str, value: str) -> Iterator[str]:
    if _OUTPUT.search(name) and ("out" in name.lower() or not _INPUT.search(name)):
        yield value
    if "=" in value:
        for key, path in _OPTION.findall(value[:_LONGEST]):
            if _OUTPUT.search(key.replace("-", "_").replace(".", "_")):
                yield path
