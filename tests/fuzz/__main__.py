# SPDX-License-Identifier: Apache-2.0
"""`make fuzz`: fuzz for FUZZ_SECONDS and print what was found; exit status 1 if anything was."""

from __future__ import annotations

import argparse
import faulthandler
import os
import random
import sys
from pathlib import Path

from tests.fuzz.run import run
from tests.fuzz.targets import TARGETS

KEPT = Path(".fuzz")


def main() -> int:
    """Fuzz, or read kept inputs again."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", 600)))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder for failing inputs")
    parser.add_argument("again", nargs="*", type=Path, help="kept inputs to read again, instead")
    args = parser.parse_args()
    faulthandler.enable()
    for file in args.again:
        name = next(one for one in TARGETS if file.name.startswith(one))
        TARGETS[name].run(file.read_bytes().decode("utf-8", "surrogatepass"))
    if args.again:
        return 0
    args.kept.mkdir(exist_ok=True)
    (args.kept / ".gitignore").write_text("*\n")
    report = run(args.seconds, args.seed, kept=args.kept)
    for name, wrong, text in report.failures[:20]:
        print(f"{name}: {wrong.strip().splitlines()[-1]}: {text[:100]!r}")
    print("\n".join(report.lines()))
    if report.failures:
        print(f"the inputs are in {args.kept}/; read one again: python -m tests.fuzz FILE")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
