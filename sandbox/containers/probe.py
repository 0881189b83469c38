# SPDX-License-Identifier: Apache-2.0
"""Look into an image with a short-lived container: would it serve as a cell, can it keep one?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import docker
from docker.models.containers import Container
from docker.types import Mount, Ulimit

from sandbox.containers.plan import AGENT_ID, IDMAP_CAPS, KEEPER_CAPS, Bind, Resources
from sandbox.errors import ImageProblem

LABEL_PROBE = "org.lockgate.probe"
"""On containers: made to look into an image, of no use after that."""
PROBE_SECONDS = 180
"""A new image must answer within this time."""
OLDEST_PYTHON = (3, 9)


@dataclass(frozen=True, slots=True)
class CellImage:
    """A cell image that was built and looked into."""

    tag: str
    python: str
    without: tuple[str, ...]
    """Usual tools that it lacks."""


_PROBE = """
import json, os, shutil, sys
sys.path.insert(0, "/")
import cell
modules = ("pip", "venv", "ensurepip", "pytest")
tools = "bash git node npm rg jq make gcc patch curl unzip less ps".split()
def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True
privileged = []
for folder, _, files in os.walk("/usr"):
    for name in files:
        path = os.path.join(folder, name)
        if os.lstat(path).st_mode & 0o6000 and not os.path.islink(path):
            privileged.append(path)
print(json.dumps({
    "python": sys.version.split()[0],
    "tuple": sys.version_info[:2],
    "bash": bool(shutil.which("bash")),
    "privileged": privileged,
    "without": [tool for tool in tools if not shutil.which(tool)]
    + [module for module in modules if not importable(module)],
}))
"""


def probe(client: docker.DockerClient, tag: str) -> CellImage:
    """Start a container of a cell image as a cell would be started, and see what it has.

    Raises ImageProblem when it could not serve as a cell.
    """
    container = _confined(client, tag, ["python3", "-I", "-B", "-c", _PROBE], AGENT_ID)
    try:
        status, last = _run(container)
    except OSError as error:
        raise ImageProblem(f"image `{tag}` does not start: {_reason(error)}") from None
    if status != 0:
        raise ImageProblem(f"image `{tag}` cannot serve as a cell: {last}")
    found = json.loads(last)
    if tuple(found["tuple"]) < OLDEST_PYTHON:
        raise ImageProblem(f"image `{tag}` has python {found['python']}; 3.9 or newer is needed")
    if not found["bash"]:
        raise ImageProblem(f"image `{tag}` has no bash, which cells run commands with")
    if found["privileged"]:
        raise ImageProblem(f"image `{tag}` lends rights to whoever runs `{found['privileged'][0]}`")
    return CellImage(tag, found["python"], tuple(found["without"]))


_PROOF = """
import json, os, sys
sys.path.insert(0, "/")
from cell import mounts
out = {"overlay": "", "owners": ""}
for name in ("lower/old", "upper", "work", "seen", "mapped"):
    os.makedirs("/tx/" + name)
with open("/tx/lower/old/file", "w") as file:
    file.write("as it was")
options = {"lowerdir": "/tx/lower", "upperdir": "/tx/upper", "workdir": "/tx/work"}
options.update(redirect_dir="on", xino="off", index="off", metacopy="off")
try:
    mount = mounts.overlay(options, mounts.NOSUID | mounts.NODEV)
    mounts.move(mount, os.open("/tx/seen", os.O_PATH))
    os.rename("/tx/seen/old", "/tx/seen/new")
    with open("/tx/seen/new/file", "a") as file:
        file.write(", changed")
    with open("/tx/lower/old/file") as file:
        if file.read() != "as it was":
            out["overlay"] = "a write went through to the layer below"
except OSError as error:
    out["overlay"] = str(error)
try:
    tree = mounts.clone(os.open("/tx/lower", os.O_PATH), "")
    mounts.set_attributes(tree, 0, mounts.owner_map({0: 10000}))
    mounts.move(tree, os.open("/tx/mapped", os.O_PATH))
    if os.stat("/tx/mapped/old/file").st_uid != 10000:
        out["owners"] = "owners are not mapped"
except OSError as error:
    out["owners"] = str(error)
print(json.dumps(out))
"""


def run_shown(
    client: docker.DockerClient, tag: str, binds: Sequence[Bind], argv: Sequence[str], uid: int
) -> str:
    """Run a program of a shown folder in an image; return what it said where it failed, or nothing.

    An engine's refusal is an answer.
    """
    shown = [Mount(bind.target, bind.source, type="bind", read_only=True) for bind in binds]
    try:
        container = _confined(client, tag, ["bash", "-c", 'exec "$@"', "bash", *argv], uid, shown)
        status, last = _run(container)
    except OSError as error:
        return _reason(error)
    return last if status else ""


def prove_mounts(client: docker.DockerClient, tag: str) -> Mapping[str, str]:
    """Make a keeper's mounts in a container of its image. An engine's refusal is an answer.

    Returns why there is no `overlay` and no mapping of `owners`; an empty text is a success.
    """
    files = Resources().files
    try:
        container = client.containers.create(
            tag,
            ["python3", "-I", "-B", "-c", _PROOF],
            user="0:0",
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=[*KEEPER_CAPS, *IDMAP_CAPS],
            security_opt=["no-new-privileges", "apparmor=unconfined"],
            mounts=[Mount("/tx", None, type="volume")],
            ulimits=[Ulimit(name="nofile", soft=files, hard=files)],
            labels={LABEL_PROBE: "1"},
        )
        _, last = _run(container)
    except OSError as error:
        return {"overlay": _reason(error), "owners": ""}
    try:
        found: dict[str, str] = json.loads(last)
    except ValueError:
        return {"overlay": last, "owners": ""}
    return found


def _confined(
    client: docker.DockerClient,
    tag: str,
    argv: Sequence[str],
    uid: int,
    mounts: Sequence[Mount] = (),
) -> Container:
    """Create a container that is confined as a cell is."""
    return client.containers.create(
        tag,
        list(argv),
        user=f"{uid}:{uid}",
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        pids_limit=64,
        mem_limit="512m",
        mounts=list(mounts),
        labels={LABEL_PROBE: "1"},
    )


def _run(container: Container) -> tuple[int, str]:
    """Run a container to its end, remove it, and return its status and its last line."""
    try:
        container.start()
        status = int(container.wait(timeout=PROBE_SECONDS)["StatusCode"])
        lines = container.logs(stdout=True, stderr=True).decode(errors="replace").splitlines()
    finally:
        container.remove(force=True, v=True)
    return status, lines[-1] if lines else "it said nothing"


def _reason(error: OSError) -> str:
    text = getattr(error, "explanation", None) or str(error)
    return " ".join(str(text).split())
