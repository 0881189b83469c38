# SPDX-License-Identifier: Apache-2.0
"""Why a command failed that could not work in a cell, in one line, and what to do about it. Pure.

It is read off what the command printed, and is only told: nothing is decided by it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from policy.people.kits import KITS
from policy.people.openers import MOST_NAMES, names_wanted

_TAIL = 8_000
_LINES = 60
_NAME = re.compile(r"[\w.+-]{1,40}")
_UNSTARTED = re.compile(
    r"(?:env|timeout|nice|nohup|xargs|make(?:\[\d+\])?): (?:failed to run command )?"
    r"['‘]?([\w.+-]{1,40})['’]?: No such file or directory"
)
_NO_NETWORK = re.compile(
    r"(?i)could not resolve|temporary failure in name resolution|name or service not known"
    r"|network is unreachable|getaddrinfo|\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|dial tcp: lookup"
    r"|failed to establish a new connection|temporary failure resolving|no route to host"
    r"|unable to resolve host"
)
_NOT_LISTENING = re.compile(
    r"(?i)(?:localhost|127\.\d+\.\d+\.\d+|\[::1\]).{0,120}(?:refused|could ?n.t connect)"
    r"|ECONNREFUSED|failed to connect to localhost"
)
_NO_HARD_LINKS = re.compile(r"fatal: hardlink (?:different from source|cannot be checked) at")
_NOT_THERE = re.compile(
    r"[\w.+-]{1,40}: (?:cannot (?:access|open|stat) )?['‘]?(?P<path>[/.][^'’:\x00-\x1f\x7f]{1,400})"
    r"['’]?: No such file or directory"
    r"|No such file or directory: '(?P<named>[/.][^'\x00-\x1f\x7f]{1,400})'"
)
_NO_SERVICE = re.compile(
    r"(?i)has not been booted with systemd|failed to connect to bus"
    r"|cannot connect to the docker daemon|docker\.sock"
)
_NO_LOGIN = re.compile(
    r"(?i)permission denied \((?:publickey|password)|host key verification failed"
    r"|could not read (?:username|password) for|authentication failed for '|cannot run ssh:"
)
_NO_SIGNING = re.compile(
    r"(?i)cannot run gpg(?:sm)?:|gpg failed to sign the data|cannot run ssh-keygen:"
)
_TEMPORARY = "/tmp"  # noqa: S108 - named, not used
_IMAGES = {
    "gradle:jdk21": ("gradle",),
    "oven/bun:debian": ("bun", "bunx"),
    "denoland/deno:debian": ("deno",),
    "node:22-bookworm": ("yarn", "yarnpkg", "corepack", "pnpm"),
}
"""An image to make a cell's image of, and the programs that it adds; the rest are kits."""
_PROJECTS = {
    "bun.lock": "oven/bun:debian",
    "bun.lockb": "oven/bun:debian",
    "deno.json": "denoland/deno:debian",
    "pnpm-lock.yaml": "node:22-bookworm",
    "yarn.lock": "node:22-bookworm",
}
"""Files at a project's top that say which of them fits."""


_NO_FILTER = re.compile(r"(?:clean|smudge) filter '([\w.-]{1,64})' failed")
_NO_REPOSITORY = re.compile(r"fatal: not a git repository: ")
_INTERPRETER = re.compile(
    r"(?:^|\s)([\w./+-]{0,200}/?\.?v?env/bin/[\w.+-]{1,40}): "
    r"(?:No such file or directory|cannot execute: required file not found|bad interpreter)"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What of this host's files a call saw."""

    here: str
    """The folder that it started in."""
    workspaces: tuple[str, ...]
    homes: tuple[str, ...]
    """The home on this host, and those in a cell, for which `~` stands there."""


def explain_failure(
    status: int | None,
    stdout: str,
    stderr: str,
    *,
    reach: str = "none",
    opener: Callable[[tuple[str, ...]], str] | None = None,
    seen: Seen | None = None,
) -> str:
    """Return why a command that ended with `status` could not work in a cell, or nothing.

    `reach` names the hosts that the call could reach (empty: what it wanted in vain was told
    already); `opener` says what opens names for it.
    """
    if (lacking := _NO_FILTER.search(stderr[-_TAIL:])) is not None:
        return (
            f"files here go through the filter `{lacking[1]}`, whose program this cell's image "
            "lacks; a commit without it would hold the raw files: add others by name, look with "
            f"`git -c filter.{lacking[1]}.required=false diff`, or see docs/environment.md"
        )
    if (name := _missing(stderr)) or (status and (name := _missing(stdout))):
        return _without_program(name)
    if not status:
        return ""
    if status in (126, 127) and (found := _without_interpreter(stderr)):
        return found
    text = stderr[-_TAIL:] + "\n" + stdout[-_TAIL:]
    if _NOT_LISTENING.search(text):
        return (
            "nothing listens there in this call: a server of an earlier call has ended with it, "
            "unless it was started in the background (`run_in_background`)"
        )
    if _NO_SIGNING.search(text):
        return (
            "no key to sign with is in a cell: with a person's yes `git commit --no-gpg-sign` "
            "commits without, and they sign what they keep (`git commit --amend --no-edit -S`)"
        )
    if _NO_LOGIN.search(text):
        return (
            "no ssh key and no token is in a cell, so that it can log in nowhere by itself: over "
            "https a person's `network.credentials` can log it in (docs/network.md); else let a "
            "person push or fetch outside"
        )
    if _NO_NETWORK.search(text):
        if not reach:
            return ""
        if opener is not None:
            names = names_wanted(stdout, stderr)
            told = ", ".join(f"`{one}`" for one in names[:MOST_NAMES])
            told = f"wanted {told}" if told else "does not say which host it wanted"
            rest = "" if reach == "none" else f" but for {reach}"
            return f"this call has no network{rest}, and {told}: {opener(names)}"
        if reach != "none":
            return f"this call has no network but for {reach}: docs/network.md says what opens more"
        return (
            "this call has no network: an install by itself reaches the host's package index, a "
            "person's yes opens a host that the command names, `network` in a policy file opens "
            "more (docs/network.md)"
        )
    if _NO_REPOSITORY.search(text):
        return (
            "the repository of this folder lies outside of the workspace, which a cell does not "
            "see: `lockgate init` at a person's terminal says which folder to register"
        )
    if _NO_HARD_LINKS.search(text):
        return "a cell's layers have no hard links in common: use `git clone --no-hardlinks`"
    if _NO_SERVICE.search(text):
        return "a cell has no services and no container engine; a person looks after the host's"
    return _unseen(text, seen) if seen is not None else ""


def fitting_images(names: Iterable[str]) -> tuple[str, ...]:
    """Return what `lockgate image build` is given for a project with these files at its top."""
    there = set(names)
    kits = [f"--for {kit.name}" for kit in KITS.values() if there.intersection(kit.files)]
    images = [f"--from {_PROJECTS[one]} --tag NAME" for one in sorted(there) if one in _PROJECTS]
    return tuple(dict.fromkeys(kits + images))


def _unseen(text: str, seen: Seen) -> str:
    """Say why a file was not there that may be there on the host."""
    for match in _NOT_THERE.finditer(text):
        path = posixpath.normpath(posixpath.join(seen.here, match["path"] or match["named"]))
        if any(_below(path, workspace) for workspace in seen.workspaces):
            continue
        if any(_below(path, home) for home in (*seen.homes, _TEMPORARY)):
            places = ", ".join(f"`{workspace}`" for workspace in seen.workspaces)
            return (
                f"a cell sees {places} and nothing else of this host's home and /tmp (`~` is a "
                "home of its own there); a registered workspace is there too where the command "
                "names it without `~`"
            )
    return ""


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _without_program(name: str) -> str:
    for kit in KITS.values():
        if name in kit.programs:
            return (
                f"`{name}` is not in this cell's image: `lockgate image build --for {kit.name}` "
                "makes one that has it, and says how to use it"
            )
    image = next((image for image, programs in _IMAGES.items() if name in programs), "IMAGE")
    return (
        f"`{name}` is not in this cell's image: `lockgate image build --from {image} --tag NAME` "
        "makes one of an image that has it, for `image: NAME` in the settings"
    )


def _without_interpreter(text: str) -> str:
    for line in reversed(text[-_TAIL:].splitlines()[-_LINES:]):
        if (found := _INTERPRETER.search(line[:400])) is not None:
            return (
                f"`{found[1]}` is not there, or made with an interpreter that this cell does not "
                "see: `lockgate init` at a person's terminal asks whether to show it"
            )
    return ""


def _missing(text: str) -> str:
    """Return the program that a shell did not find."""
    for line in reversed(text[-_TAIL:].splitlines()[-_LINES:]):
        for ending in (": command not found", ": not found"):
            if line.endswith(ending):
                name = line.removesuffix(ending).rpartition(": ")[2]
                if _NAME.fullmatch(name) and ": " in line.removesuffix(ending):
                    return name
        if (found := _UNSTARTED.fullmatch(line)) is not None:
            return found[1]
    return ""
