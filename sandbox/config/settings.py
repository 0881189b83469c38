# SPDX-License-Identifier: Apache-2.0
"""Settings of one user's Lockgate, read from `config.yaml`, and where its folders are.

Every key is optional. A key that Lockgate does not know is refused with its line.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from policy.model import Frozen, Limits
from policy.values.strict_yaml import PolicyError, build, parse
from sandbox.config.budgets import BudgetSettings
from sandbox.config.channels import Channel
from sandbox.config.guard import GuardSettings
from sandbox.errors import BadInput
from sandbox.host.dirs import Dirs
from sandbox.host.text_files import read_text

__all__ = ["CellSettings", "Dirs", "IdleSettings", "Lifetime", "Settings", "load_settings"]

MIB = 1024 * 1024


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ValueError(f"`{name}` is no time zone that this host knows") from None
    return name


TimeZone = Annotated[str, AfterValidator(_zone)]


class Lifetime(str, Enum):
    """How long a cell lives."""

    RESIDENT = "resident"
    """One cell per agent, warm between calls."""
    DISPOSABLE = "disposable"
    """A fresh cell per call."""


class Preview(str, Enum):
    """What a person is shown beforehand of a call that they are asked about."""

    NONE = "none"
    """What gate 1 read in it."""
    REHEARSE = "rehearse"
    """What it did in a cell of its own, where nothing lands (docs/people.md)."""


class CellSettings(Frozen):
    """What one cell may use of the host."""

    memory_mib: Annotated[int, Field(ge=64)] = 4096
    """Memory of all processes of a cell together, in MiB; there is no swap."""
    cpus: Annotated[float, Field(gt=0)] = 4.0
    """Processors that a cell may keep busy; never more than the host has."""
    pids: Annotated[int, Field(ge=32)] = 1024
    """Processes and threads of a cell."""
    open_files: Annotated[int, Field(ge=64)] = 16_384
    """File descriptors of one process."""
    tmp_mib: Annotated[int, Field(ge=1)] = 1024
    """Size of the cell's own /tmp, in MiB (its pages count as memory)."""
    shm_mib: Annotated[int, Field(ge=1)] = 1024
    """Size of the cell's shared memory, /dev/shm, in MiB (its pages count as memory)."""


class IdleSettings(Frozen):
    """When what nobody uses goes away."""

    cell_seconds: Annotated[float, Field(gt=0)] = 900.0
    """A cell without a call for this long is removed."""
    supervisor_seconds: Annotated[float, Field(gt=0)] = 1800.0
    """A supervisor without a client, a call or a background call for this long ends."""


class AskHosts(str, Enum):
    """What becomes of a host that a running call wants and has no right to."""

    NEVER = "never"
    """It does not exist for the call, whose answer says what opens it."""
    WAIT = "wait"
    """A person is asked while the connection waits, where somebody can be asked."""


class NetworkSettings(Frozen):
    """What one call that may reach a host may use of the network (docs/network.md)."""

    connections: Annotated[int, Field(ge=1, le=1024)] = 64
    """Connections at once; altogether it gets a hundred times as many."""
    upload_mib: Annotated[int, Field(ge=1)] = 16
    """What it may send, in MiB; then it is ended."""
    download_mib: Annotated[int, Field(ge=1)] = 8192
    """What it may receive, in MiB."""
    ask: AskHosts = AskHosts.NEVER
    """`never`, or `wait`: whether a person is asked about a host that a running call wants."""


class KeeperSettings(Frozen):
    """How long the keeper of a cell may take over one request; then it is taken for lost."""

    look_seconds: Annotated[float, Field(ge=10)] = 300.0
    """To list what a call changed, or what an undo would do: the call is discarded after that."""
    land_seconds: Annotated[float, Field(ge=10)] = 900.0
    """To land or to undo; what had begun is brought to its end by the next keeper."""


class HookSettings(Frozen):
    """How hooks of coding agents behave (docs/agents.md)."""

    wait_seconds: Annotated[float, Field(gt=0, le=1740)] = 1700.0
    """How long a hook waits for a person; the agents' own limit is set a little higher."""
    unattended_seconds: Annotated[float, Field(gt=0, le=1740)] = 30.0
    """How long it waits where the agent says that nobody sits there."""
    redact: bool = False
    """Mask secrets in what tools give back to the model."""


class NoticeSettings(Frozen):
    """How a person is told at once that a question waits (docs/people.md)."""

    bell: bool = True
    """Ring the bell of the terminal at which the agent runs."""
    desktop: bool = True
    """Show a notice on the desktop, where there is a session bus and the extra `desktop`."""


class AuditSettings(Frozen):
    """How the audit log is kept (docs/audit.md)."""

    rotate_mib: Annotated[int, Field(ge=1)] = 64
    """Size in MiB from which on a new file of the log begins."""
    keep: Annotated[int, Field(ge=0)] = 0
    """Older files of the log that are kept; 0: all."""


HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]
HeaderValue = Annotated[str, Field(pattern=r"^[!-~](?:[ -~]*[!-~])?$")]


class TelemetrySettings(Frozen):
    """Where spans of calls go (docs/telemetry.md)."""

    endpoint: Annotated[str, Field(pattern=r"^https?://")] | None = None
    """A collector's address for OTLP over HTTP; none: no span is made, and nothing leaves."""
    headers: dict[HeaderName, HeaderValue] = Field(default_factory=dict)
    """Headers that the collector wants, such as a token."""
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """How long one delivery may take."""


class Settings(Frozen):
    """The settings file. What it does not say keeps its default."""

    runtime: str | None = None
    """Name of the engine's runtime for cells (`runc`, `runsc`, ...); none: the engine's default."""
    lifetime: Lifetime = Lifetime.RESIDENT
    """How long a cell lives: `resident` or `disposable`."""
    warm: Annotated[int, Field(ge=0, le=16)] = 2
    """Fresh cells that stand ready where cells are disposable, for each agent and workspace."""
    image: str | None = None
    """Name of the cell image; none: the one that `lockgate image build` makes."""
    call_seconds: Annotated[float, Field(gt=0)] = 120.0
    """Time limit of a call that names none."""
    limits: Limits = Limits()
    """Bounds of every call; a call, a role or a rule may only narrow them."""
    cell: CellSettings = CellSettings()
    """What one cell may use of the host."""
    idle: IdleSettings = IdleSettings()
    """When what nobody uses goes away."""
    keeper: KeeperSettings = KeeperSettings()
    """How long the keeper of a cell may take."""
    network: NetworkSettings = NetworkSettings()
    """What a call that may reach a host may use of the network."""
    undo_mib: Annotated[int, Field(ge=0)] = 2048
    """Before-images kept per workspace, in MiB; the oldest go first."""
    budgets: BudgetSettings = BudgetSettings()
    """What an agent may use before it is paused or stopped (docs/stop.md)."""
    guard: GuardSettings = GuardSettings()
    """What the guard does when a protected file changes around Lockgate (docs/guard.md)."""
    notices: NoticeSettings = NoticeSettings()
    """How a person is told at once that a question waits."""
    channels: dict[str, Channel] = Field(default_factory=dict)
    """Ways to reach people; a user's `escalation_channel` names one (docs/people.md)."""
    hooks: HookSettings = HookSettings()
    """How hooks of coding agents behave."""
    time_zone: TimeZone | None = None
    """In which quiet hours are meant (`Europe/Berlin`); none: this host's."""
    preview: Preview = Preview.NONE
    """What a person is shown beforehand: `none`, or `rehearse` the call first."""
    telemetry: TelemetrySettings = TelemetrySettings()
    """Spans for OpenTelemetry (docs/telemetry.md)."""
    audit: AuditSettings = AuditSettings()
    """How the audit log is kept (docs/audit.md)."""
    outputs_mib: Annotated[int, Field(ge=1)] = 4096
    """What calls wrote, and the diffs of their changes, in MiB; those of the oldest go first."""
    approval_seconds: Annotated[float, Field(gt=0)] = 1800.0
    """How long a question waits for a person before it counts as a no."""


def load_settings(dirs: Dirs) -> Settings:
    """Return the user's settings, or the defaults when there is no file. Raises BadInput."""
    name = str(dirs.settings)
    try:
        text = read_text(dirs.settings) or ""
        data = parse(text, name)
        return Settings() if data is None else build(Settings, data, name, text)
    except PolicyError as error:
        raise BadInput(str(error)) from None
