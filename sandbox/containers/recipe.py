# SPDX-License-Identifier: Apache-2.0
"""What goes into the images: Dockerfiles, the code that runs inside, watchdog; and its digest."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
from pathlib import Path

from sandbox.errors import ImageProblem

Files = dict[str, bytes]
"""Contents by relative name."""

_HERE = Path(__file__).parents[1]


def recipes() -> Path:
    """Return the folder with the Dockerfiles: beside the packages, or inside an installed one."""
    installed = _HERE / "images_data"
    return installed if installed.is_dir() else _HERE.parent / "images"


def code_digest() -> str:
    """Return the digest over names and contents of the code that goes into both images."""
    return digest(code())


def context(role: str, code: Files) -> io.BytesIO:
    """Return the build context as a tar archive that depends on contents alone."""
    files = dict(recipe_files(role))
    if role != "kit":  # its base has the code
        files |= {f"cell/{name}": data for name, data in code.items()}
    if role == "keeper":
        files |= {f"lib/watchdog/{name}": data for name, data in _watchdog().items()}
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
    archive.seek(0)
    return archive


def recipe_files(role: str) -> Files:
    """Return the Dockerfile of a role and what it copies, without code."""
    wanted = (f"{role}.Dockerfile", "prepare.sh")
    return {name: (recipes() / name).read_bytes() for name in wanted}


def code() -> Files:
    """Return the code that runs inside containers."""
    root = _HERE / "cell"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.py")}


def _watchdog() -> Files:
    """Return the files of the watchdog package: pure Python as far as Linux needs it."""
    found = importlib.util.find_spec("watchdog")
    if found is None or not found.submodule_search_locations:
        raise ImageProblem("the package `watchdog` is not installed: run `pip install lockgate`")
    root = Path(found.submodule_search_locations[0])
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.py")}


def digest(files: Files) -> str:
    """Return a digest over names and contents."""
    found = hashlib.sha256()
    for name, data in sorted(files.items()):
        found.update(f"{name}\0{len(data)}\0".encode())
        found.update(data)
    return found.hexdigest()
