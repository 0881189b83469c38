# SPDX-License-Identifier: Apache-2.0
"""Commands about Lockgate itself: this host, its images, its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policy.people.kits import KITS
from sandbox.cli import terminal
from sandbox.errors import BadInput
from sandbox.host.version import VERSION, digest
from sandbox.text.terminal import safe_line

if TYPE_CHECKING:
    from sandbox.containers.probe import CellImage

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command(short_help="Say what this host enforces and what it does not.")
@JSON
def doctor(**flags: bool) -> int:
    """Check each layer of enforcement on this host; the status is 1 when it is below the floor.

    \b
    Examples:
      lockgate doctor
      lockgate doctor --json
    """
    from sandbox.doctor.diagnose import main

    return main(["--json"] if flags["as_json"] else [])


@click.group(short_help="Build and list the images of cells.")
def image() -> None:
    """Build and list the images that cells and keepers are made of.

    \b
    Examples:
      lockgate image build
      lockgate image list
    """


@image.command(short_help="Build the images, or a cell image of your own.")
@click.option("--from", "source", metavar="IMAGE", help="Make a cell image of this one.")
@click.option("--tag", metavar="NAME", help="Name of the image made with --from.")
@click.option("--for", "kit", type=click.Choice(tuple(KITS)), help="Add a language's programs.")
def build(source: str | None, tag: str | None, kit: str | None) -> int:
    """Build the images where they are missing; with --from, a cell image of another image; with
    --for, one with the compiler and package manager of a language, from Debian's packages.

    IMAGE is Debian- or Alpine-like and has python3 and bash.

    \b
    Examples:
      lockgate image build
      lockgate image build --for go
      lockgate image build --from node:22-bookworm --tag lockgate/node
    """
    from sandbox.containers.images import build_cell_image, build_kit_image, ensure_images
    from sandbox.containers.progress import on_stderr
    from sandbox.setup.bootstrap import ensure_engine

    if kit and (source or tag):
        raise BadInput("`--for` stands alone: `--from IMAGE --tag NAME` takes another image")
    with on_stderr() as progress:
        client = ensure_engine(progress)
        if kit is not None:
            lines = _described(build_kit_image(client, KITS[kit], progress))
        elif source is None:
            found = ensure_images(client, progress)
            lines = [f"cell   {found.cell}", f"keeper {found.keeper}"]
        else:
            name = tag or f"lockgate/from-{source.replace('/', '-').replace(':', '-')}"
            ensure_images(client, progress)
            lines = _described(build_cell_image(client, source, name, progress))
    for line in lines:
        terminal.show(safe_line(line))
    return 0


def _described(made: CellImage) -> list[str]:
    """Return what a person is told of an image that was made."""
    lines = [f"cell   {made.tag} (python {made.python})"]
    if made.without:
        lines.append(f"without {', '.join(made.without)}")
    return [*lines, f"use it with `image: {made.tag}` in {terminal.dirs().settings}"]


@image.command("list", short_help="List the images.")
@JSON
def list_(**flags: bool) -> int:
    """List Lockgate's images on the engine.

    \b
    Examples:
      lockgate image list
      lockgate image list --json
    """
    from dataclasses import asdict

    from sandbox.containers.endpoints import connect
    from sandbox.containers.images import list_images
    from sandbox.present.tables import table

    found = list_images(connect())
    if flags["as_json"]:
        terminal.show_json([asdict(image_info) for image_info in found])
    elif found:
        rows = [
            (
                image_info.tag,
                image_info.role,
                image_info.made_from,
                f"{image_info.size / 1e6:.0f} MB",
                _age(image_info.current),
            )
            for image_info in found
        ]
        terminal.show(table(("image", "role", "from", "size", "state"), rows))
    else:
        terminal.show("no image; `lockgate image build` builds them")
    return 0


def _age(current: object) -> str:
    return "current" if current else "of another version"


@click.command(short_help="Say which version this is.")
@JSON
def version(**flags: bool) -> int:
    """Say which version this is, and which code and settings it runs with.

    \b
    Examples:
      lockgate version
      lockgate version --json
    """
    code = digest(str(terminal.dirs().config))
    if flags["as_json"]:
        terminal.show_json({"version": VERSION, "digest": code})
    else:
        terminal.show(f"lockgate {VERSION} ({code})")
    return 0


@click.command(short_help="Print a completion script for your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print a script that completes commands and options in SHELL.

    \b
    Examples:
      lockgate completion bash > ~/.local/share/bash-completion/completions/lockgate
      lockgate completion fish > ~/.config/fish/completions/lockgate.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    terminal.show(kind(root, {}, "lockgate", "_LOCKGATE_COMPLETE").source())
    return 0
