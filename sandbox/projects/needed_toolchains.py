# SPDX-License-Identifier: Apache-2.0
"""Which toolchains of this host a project asks for, as a person would use it at a terminal here.

Read off files of the project and the person's PATH. What is found is proposed to a person, and
nothing is shown for it alone: a project's files may be an agent's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from glob import iglob
from itertools import islice
from pathlib import Path

from policy.people.toolchains import Language, Toolchains
from sandbox.host import files as own_files
from sandbox.workspaces.forbidden import quoted

ENVIRONMENTS = (".venv", "venv", "env")
_PROGRAMS: dict[Language, str] = {"python": "python3", "node": "node", "rust": "rustc", "go": "go"}
_ASKS: dict[Language, tuple[str, ...]] = {
    "node": ("package.json", ".nvmrc", ".node-version"),
    "rust": ("Cargo.toml", "rust-toolchain", "rust-toolchain.toml"),
    "go": ("go.mod",),
}
"""Files at a project's top that say that it is made with a language."""
_VERSIONS = {"node": (".nvmrc", ".node-version"), "rust": ("rust-toolchain",)}
_TOOL_NAMES = {"node": ("nodejs", "node"), "rust": ("rust",), "go": ("golang", "go")}
_VERSION = re.compile(r"[\w][\w.+-]{0,63}", re.ASCII)
_SYSTEM = ("/usr/bin", "/bin")
_SMALL = 65_536
MOST_FOLDERS = 200


@dataclass(frozen=True, slots=True)
class Needed:
    """A toolchain that a project asks for."""

    language: Language
    why: str
    """What in the project asks for it: a path of the project."""
    folder: str = ""
    """The folder to show; none where it is no toolchain that can be shown."""
    program: str = ""
    """What the project names, where that cannot be shown."""
    version: str = ""

    @property
    def advice(self) -> str:
        """Say what helps where it cannot be shown."""
        image = f"python:{self.version}-bookworm" if self.version else "IMAGE"
        return (
            f"{quoted(self.why)} needs {quoted(self.program)}, which cells do not see: "
            f"`lockgate image build --from {image} --tag NAME` makes an image that has it, for "
            "`image: NAME` in the settings"
        )


def find_needed(workspace: str, home: str) -> tuple[Needed, ...]:
    """Return the toolchains that a project asks for, in the order of their languages."""
    root = Path(workspace)
    found = [*_environments(root, home)]
    for language, names in _ASKS.items():
        why = next((name for name in names if (root / name).is_file()), None)
        folder = _chosen(root, language, home) if why is not None else None
        if why is not None and folder is not None:
            found.append(Needed(language, why, folder))
    return tuple(dict.fromkeys(found))


def _environments(root: Path, home: str) -> Iterator[Needed]:
    """Give the interpreters of the project's virtual environments."""
    for name in ENVIRONMENTS:
        lines = _text(root / name / "pyvenv.cfg").splitlines()
        pairs = [line.partition("=") for line in lines]
        values = {key.strip().lower(): value.strip() for key, _, value in pairs}
        programs = values.get("home", "")
        if not programs.startswith("/") or programs in _SYSTEM:
            continue
        path = os.path.normpath(programs)
        why = f"{name}/pyvenv.cfg"
        folder = Toolchains.default().holding(path, home)
        if folder is not None:
            yield Needed("python", why, folder)
        else:
            version = ".".join(values.get("version", values.get("version_info", "")).split(".")[:2])
            version = version if re.fullmatch(r"3\.\d{1,2}", version) else ""
            yield Needed("python", why, program=f"{path}/python3", version=version)


def _chosen(root: Path, language: Language, home: str) -> str | None:
    """Return the folder of the version that a person would get in the project, if it is one."""
    table = Toolchains.default()
    asked = next(_asked(root, language, home), None)
    if asked is not None and (folder := _installed(language, asked, home)) is not None:
        return folder
    program = shutil.which(_PROGRAMS[language])
    return None if program is None else table.holding(os.path.realpath(program), home)


def _asked(root: Path, language: Language, home: str) -> Iterator[str]:
    """Give the versions that files name, the project's first."""
    for name in _VERSIONS.get(language, ()):
        yield from _words(_text(root / name))
    if language == "node":
        yield from _volta(_text(root / "package.json"))
    if language == "rust":
        asked = _text(root / "rust-toolchain.toml")
        yield from re.findall(r'(?m)^[ \t]*channel[ \t]*=[ \t]*"([^"\n]*)"', asked)
    for file in (root / ".tool-versions", Path(home) / ".tool-versions"):
        for line in _text(file).splitlines():
            words = line.split("#")[0].split()
            if len(words) > 1 and words[0] in _TOOL_NAMES.get(language, ()):
                yield words[1]
    if language == "rust":
        settings = _text(Path(home) / ".rustup/settings.toml")
        yield from re.findall(r'(?m)^default_toolchain\s*=\s*"([^"\n]*)"', settings)
    if language == "node":
        yield from _words(_text(Path(home) / ".nvm/alias/default"))


def _words(text: str) -> Iterator[str]:
    first = text.split("#")[0].split()
    if first:
        yield first[0]


def _volta(text: str) -> Iterator[str]:
    try:
        yield str(json.loads(text)["volta"]["node"])
    except (ValueError, KeyError, TypeError):
        return


def _installed(language: Language, version: str, home: str) -> str | None:
    """Return the newest installed folder of a version (`v20`, `22.3.0`, `stable`)."""
    wanted = version.removeprefix("v")
    if _VERSION.fullmatch(wanted) is None:
        return None
    best: tuple[list[int], str] | None = None
    for kind in Toolchains.default().speaking(language):
        for pattern in kind.globs(home):
            for folder in islice(iglob(pattern), MOST_FOLDERS):  # noqa: PTH207
                name = _own_name(folder, pattern).removeprefix("v")
                if name == wanted or name.startswith((f"{wanted}.", f"{wanted}-")):
                    here = [int(one) for one in re.findall(r"\d{1,6}", name)], folder
                    best = here if best is None else max(best, here)
    return None if best is None else best[1]


def _own_name(folder: str, pattern: str) -> str:
    """Return the part of a path for which the pattern has a star."""
    pairs = zip(folder.split("/"), pattern.split("/"), strict=False)
    return next((name for name, part in pairs if "*" in part), "")


def _text(path: Path) -> str:
    try:
        with own_files.opened(path) as file:
            return file.read(_SMALL).decode("utf-8", "replace")
    except OSError:
        return ""
