# SPDX-License-Identifier: Apache-2.0
"""Build, name and check the images of cells and keepers.

An image's tag ends in a digest of its recipe and of the code inside, so that two versions of
Lockgate on one host never share one, and a check is a look at labels. Which base is used and how
it is had is `sandbox.containers.base_image`; nothing here starts a cell.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass

import docker
import docker.errors
from docker.models.images import Image

from policy.people.kits import KITS, Kit
from sandbox.containers.base_image import ensure_base, pull, split_tag
from sandbox.containers.build import (
    LABEL_CODE,
    LABEL_FROM,
    LABEL_IMAGE,
    LABEL_KIT,
    LABEL_VERSION,
    Build,
    build_image,
    build_lock,
    engine_reason,
)
from sandbox.containers.probe import CellImage, probe
from sandbox.containers.progress import Progress
from sandbox.containers.recipe import Files, code, code_digest, digest, recipe_files
from sandbox.errors import BadInput, ImageProblem

CELL = "lockgate/cell"
KEEPER = "lockgate/keeper"
_KIT = "lockgate/"
"""What the names of kits' images begin with."""

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Images:
    """The names of the images that this version of Lockgate uses."""

    cell: str
    keeper: str


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One image of Lockgate's on the engine."""

    tag: str
    role: str
    version: str
    made_from: str
    size: int
    """In bytes, with the layers that it shares."""
    current: bool
    """Whether it holds this version's code."""


def building(tag: str) -> str:
    """Return the command that makes an image of this name."""
    name, version = split_tag(tag)
    if name in (CELL, KEEPER):
        return "lockgate image build"
    kit = name.removeprefix(_KIT)
    if name.startswith(_KIT) and kit in KITS and version == "latest":
        return f"lockgate image build --for {kit}"
    return f"lockgate image build --from IMAGE --tag {tag}"


def names() -> Images:
    """Return the tags that this version's images have, whether they exist or not."""
    return _names(code())


def _names(inside: Files) -> Images:
    parts = recipe_files("cell") | recipe_files("keeper")
    parts |= {f"cell/{name}": data for name, data in inside.items()}
    tag = digest(parts)[:_DIGITS]
    return Images(f"{CELL}:{tag}", f"{KEEPER}:{tag}")


def ensure_images(client: docker.DockerClient, progress: Progress) -> Images:
    """Return this version's images, built first where they are missing.

    Takes milliseconds when they exist. Only one process of a user builds at a time; the others
    wait for it. Raises ImageProblem, or Unavailable when no base image can be had.
    """
    inside = code()  # read once: files may change while an image is built
    wanted = _names(inside)
    if _both_there(client, wanted):
        return wanted
    with build_lock(progress):
        if _both_there(client, wanted):  # somebody else built them while we waited
            return wanted
        base = ensure_base(client, progress)
        progress.step("building the keeper image")
        build_image(client, Build("keeper", base, wanted.keeper, inside), progress)
        progress.step("building the cell image")
        build_image(client, Build("cell", base, wanted.cell, inside, {"TOOLS": "all"}), progress)
        probe(client, wanted.cell)
    return wanted


def build_cell_image(
    client: docker.DockerClient, from_image: str, tag: str, progress: Progress
) -> CellImage:
    """Make a cell image of any Debian- or Alpine-like image with python3 and bash.

    What can be installed is; what is missing in the end is told, not an error. The image of that
    name is replaced only by one that was looked into. Raises BadInput or ImageProblem.
    """
    source = _source(client, from_image, progress)
    if tag in (*_tags(source), from_image):
        raise BadInput(f"`{tag}` names the image to start from: choose another `--tag`")
    if volumes := source.attrs.get("Config", {}).get("Volumes"):
        raise ImageProblem(
            f"image `{from_image}` declares volumes ({', '.join(sorted(volumes))}), places that "
            "could be written outside a transaction: use one that declares none"
        )
    with build_lock(progress):
        progress.step(f"building a cell image from {from_image}")
        arguments = {"TOOLS": "available"}
        build = Build("cell", from_image, tag, code(), arguments, foreign=True)
        image = _build_and_probe(client, build, progress)
    return dataclasses.replace(image, tag=tag)


def build_kit_image(client: docker.DockerClient, kit: Kit, progress: Progress) -> CellImage:
    """Make `lockgate/KIT`: this version's cell image with the packages of a kit.

    They come through the sources that the base image names. The image of that name is replaced
    only where it is one of this kit, and by one that was looked into. Raises BadInput where it is
    another, which a person made; ImageProblem.
    """
    base = ensure_images(client, progress).cell
    tag = f"{_KIT}{kit.name}:latest"
    with build_lock(progress):
        _keep_others(client, tag, kit)
        progress.step(f"building a cell image with {' '.join(kit.packages)}")
        arguments = {"PACKAGES": " ".join(kit.packages), "PROGRAMS": " ".join(kit.programs)}
        build = Build("kit", base, tag, code(), arguments, kit=kit.name)
        image = _build_and_probe(client, build, progress)
    return dataclasses.replace(image, tag=split_tag(tag)[0])


def _keep_others(client: docker.DockerClient, tag: str, kit: Kit) -> None:
    """Raise BadInput where an image of a kit's name is not the kit's."""
    try:
        labels = client.images.get(tag).labels
    except docker.errors.ImageNotFound:
        return
    if labels.get(LABEL_KIT) != kit.name:
        raise BadInput(
            f"`{tag}` is an image of your own, not of the kit `{kit.name}`: give it another name "
            f"(`docker tag {tag} NEW`, `docker rmi {tag}`), then once more"
        )


def _build_and_probe(client: docker.DockerClient, build: Build, progress: Progress) -> CellImage:
    """Build an image under a passing name; give it its own once it was looked into."""
    candidate = f"{CELL}:candidate-{os.getpid()}"
    try:
        build_image(client, dataclasses.replace(build, tag=candidate), progress)
        image = probe(client, candidate)
        client.images.get(candidate).tag(*split_tag(build.tag))
    finally:
        _untag(client, candidate)
    return image


def check_image(client: docker.DockerClient, tag: str) -> str | None:
    """Return what is wrong with an image of ours, in one line with its remedy, or None."""
    try:
        labels = client.images.get(tag).labels
    except docker.errors.ImageNotFound:
        return f"image `{tag}` is missing: run `{building(tag)}`"
    except docker.errors.APIError as error:
        return f"image `{tag}` cannot be looked at: {error.explanation or error}"
    if LABEL_IMAGE not in labels:
        return (
            f"image `{tag}` was not made by Lockgate: "
            f"run `lockgate image build --from {tag} --tag NEW`"
        )
    if labels.get(LABEL_CODE) != code_digest():
        made_from = f"--from {labels.get(LABEL_FROM, 'IMAGE')} --tag {tag}"
        again = f"--for {labels[LABEL_KIT]}" if LABEL_KIT in labels else made_from
        return (
            f"image `{tag}` holds the code of another version ({labels.get(LABEL_VERSION, '?')}): "
            f"run `lockgate image build {again}`"
        )
    return None


def list_images(client: docker.DockerClient) -> tuple[ImageInfo, ...]:
    """Return every tagged image of Lockgate's, those of this version first."""
    found = [
        ImageInfo(
            tag=tag,
            role=image.labels.get(LABEL_IMAGE, ""),
            version=image.labels.get(LABEL_VERSION, ""),
            made_from=image.labels.get(LABEL_FROM, ""),
            size=int(image.attrs.get("Size", 0)),
            current=image.labels.get(LABEL_CODE) == code_digest(),
        )
        for image in client.images.list(filters={"label": LABEL_IMAGE})
        for tag in _tags(image)
    ]
    return tuple(sorted(found, key=lambda info: (not info.current, info.role, info.tag)))


def remove_images(client: docker.DockerClient, *, old_only: bool) -> tuple[str, ...]:
    """Remove Lockgate's own images that no container uses and return their tags.

    `old_only` keeps those of this version. Images under names that a user chose stay.
    """
    removed = []
    for info in list_images(client):
        ours = split_tag(info.tag)[0] in (CELL, KEEPER)
        if ours and not (old_only and info.current) and _untag(client, info.tag):
            removed.append(info.tag)
    return tuple(removed)


# How the engine is asked


def _both_there(client: docker.DockerClient, wanted: Images) -> bool:
    """Whether both exist. Their names hold the digest of what they are made of."""
    try:
        found = [client.images.get(tag).labels for tag in (wanted.cell, wanted.keeper)]
    except docker.errors.ImageNotFound:
        return False
    return all(LABEL_IMAGE in labels and LABEL_CODE in labels for labels in found)


def _source(client: docker.DockerClient, image: str, progress: Progress) -> Image:
    try:
        return client.images.get(image)
    except docker.errors.ImageNotFound:
        pass
    except docker.errors.APIError as error:
        raise BadInput(f"`{image}` is no image's name: {engine_reason(error)}") from None
    if problem := pull(client, image, progress):
        raise ImageProblem(f"image `{image}` is not here and cannot be pulled: {problem}")
    return client.images.get(image)


def _untag(client: docker.DockerClient, tag: str) -> bool:
    try:
        client.images.remove(tag)
    except docker.errors.APIError:
        return False  # not there, or a container uses it
    return True


def _tags(image: Image) -> tuple[str, ...]:
    return tuple(image.tags)
