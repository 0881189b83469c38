# SPDX-License-Identifier: Apache-2.0
"""The shape of the catalog: what programs read, write, delete, run and talk to, as data."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import Field

from policy.model import Frozen, Tier


class Use(str, Enum):
    """What a program does with an operand or with the value of an option."""

    TEXT = "text"
    READ = "read"
    SEARCH = "search"
    LIST = "list"
    EXIST = "exist"
    RUN = "run"
    """A file of code that is executed."""
    WRITE = "write"
    META = "meta"
    DELETE = "delete"
    TREE = "tree"
    MOVE = "move"
    SHELL = "shell"
    """A text that a shell runs."""
    PROGRAM = "program"
    """A command line without shell syntax."""
    URL = "url"


class Alarm(Frozen):
    """An option that makes a call more dangerous than its program."""

    tier: Tier = Tier.DANGER
    rule: str = "option"
    because: str


class Phrase(Frozen):
    """Words that make a call more dangerous than its program."""

    words: str
    """An expression that is found anywhere in the call: the program and its arguments, each
    followed by a blank; a blank within one is written `·`."""
    tier: Tier = Tier.FORBIDDEN
    rule: str
    because: str


class Entry(Frozen):
    """What a program, or one of its verbs, does."""

    tier: Tier
    rule: str = "program"
    because: str
    operands: tuple[Use, ...] = ()
    """Uses by position; the last one counts for all that follow."""
    last: Use | None = None
    """The use of the last operand where there are at least two (a destination)."""
    values: tuple[str, ...] = ()
    """Options whose value is of no interest."""
    uses: dict[str, Use] = Field(default_factory=dict)
    """Options whose value is used."""
    alarms: dict[str, Alarm] = Field(default_factory=dict)
    phrases: tuple[Phrase, ...] = ()
    in_place: tuple[str, ...] = ()
    """Options that make the program write its operands."""
    wraps: int | None = None
    """Operands from this position on are a command."""
    writes: bool = False
    """It may write files that the call does not name."""
    network: bool = False
    prints: Literal["unknown", "nothing", "input", "names", "number"] = "unknown"
    verbs: dict[str, Entry] = Field(default_factory=dict)
    """Subcommands; a key may name several, separated by blanks."""


class Programs(Entry):
    """One entry of the catalog."""

    programs: tuple[str, ...] = Field(min_length=1)
    handler: str = ""
    """The reader in `policy.programs.readers` that knows this program's own language."""
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()


class Variable(Frozen):
    """What setting an environment variable does."""

    names: tuple[str, ...] = Field(min_length=1)
    tier: Tier
    rule: str = "environment"
    because: str
    value: Literal["text", "shell", "prompt", "command", "file", "options", "folders"] = "text"
    harmless: tuple[str, ...] = ()
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()


class Pattern(Frozen):
    """A text pattern, for payloads in other languages and for text that cannot be read."""

    id: str
    where: tuple[str, ...] = Field(min_length=1)
    """Languages that the pattern belongs to; `opaque` is unreadable shell text."""
    pattern: str
    tier: Tier
    because: str
    network: bool = False
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = ()


class CodeCall(Frozen):
    """A call in a programming language, found in a literal program."""

    where: tuple[str, ...] = Field(min_length=1)
    """Languages."""
    call: str
    """An expression for the name, up to its arguments."""
    args: tuple[Use, ...] = ()
    tier: Tier = Tier.CAUTION
    rule: str = "code"
    because: str
    network: bool = False
    opaque: bool = False
    """What it does is made at run time."""


class Carrier(Frozen):
    """Where the arguments of programs hold a command that they start."""

    programs: tuple[str, ...] = Field(min_length=1)
    verbs: tuple[str, ...] = ()
    """Subcommands that start a command; without any, every call does."""
    skip: int = 0
    """Operands between the verb and the command (a version, a host, a folder)."""
    values: tuple[str, ...] = ()
    """Options with a value, before the command."""
    texts: tuple[str, ...] = ()
    """Options whose value is shell text."""
    settings: tuple[str, ...] = ()
    """Options whose value is `key=text`, where the text may be run."""
    scripts: Literal["none", "some", "all"] = "none"
    """What the word may be instead of a program: a script of the project, where it names no
    program (`some`), or in every case but the plainest (`all`)."""
    reads: tuple[str, ...] = ()
    """Options whose value is a file that is read for the command's environment."""
    rest: tuple[str, ...] = ()
    """Options after which everything is the command."""
    dashes: bool = False
    """Only what follows `--` is the command; without it there is none."""
    seek: bool = False
    """The command starts at the first word that is a program of the catalog."""
    joined: bool = False
    """The words are joined and given to a shell."""
    each: bool = False
    """Each operand is a shell text of its own."""
    assigns: bool = False
    """`NAME=value` may stand before the command."""
    input: bool = False
    """In the texts and the standard input, only lines that start with `!` are shell text."""
    carries: tuple[str, ...] = Field(min_length=1)
    """Calls in which `{}` are the words of a command, `{text}` a shell text in quotes and `{line}`
    the same without quotes."""


class Form(Frozen):
    """Calls of programs that do less than the programs can (see `policy.programs.forms`)."""

    programs: tuple[str, ...] = Field(min_length=1)
    tier: Tier
    rule: str = ""
    because: str
    writes: bool = False
    uses: dict[str, Use] = Field(default_factory=dict)
    forms: tuple[str, ...] = Field(min_length=1)
    """Expressions for all arguments, each followed by a blank; `<word>`, `<words>` and `<name>` are
    words that are no options."""
    match: tuple[str, ...] = Field(min_length=1)
    miss: tuple[str, ...] = Field(min_length=1)


class CatalogFile(Frozen):
    """One file of `policy/catalog`."""

    programs: tuple[Programs, ...] = ()
    carriers: tuple[Carrier, ...] = ()
    variables: tuple[Variable, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    calls: tuple[CodeCall, ...] = ()
    forms: tuple[Form, ...] = ()
    doubtful: tuple[str, ...] = ()
    """Programs of which nothing else is said, and of which a person is asked."""
