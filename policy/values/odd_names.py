# SPDX-License-Identifier: Apache-2.0
"""Names that other programs take for something else than a name. Pure, for both gates.

`tar cf x.tar *` takes a file called `--checkpoint-action=exec=sh x` for an option, `vim *` one
called `+!sh x` for a command, `git rm *` one called `:!src` for a pattern, `perl -n x *` one called
`sh x|` for a pipe; make puts the names that `$(wildcard *)` gives into a shell's text; and a script
that reads a listing by lines takes one file for two.
"""

from __future__ import annotations

import re

_PACKAGES = frozenset(("node_modules", "site-packages", "dist-packages"))
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNSEEN = re.compile("[\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
"""Not U+200C and U+200D, which words of some languages, and signs put together, hold."""
_ROUTE = re.compile(
    r"\+(?:types|(?:page|layout|server|error|Page|Layout|Head|Wrapper|Loading|config|data|route"
    r"|guard|title|client|middleware|not-found|html|native-intent|on[A-Z][A-Za-z]*)(?:@[\w()-]*)?"
    r"(?:\.(?:server|client|shared|web|native|ios|android))?"
    r"\.(?:svelte|vue|md|mdx|svx|[cm]?[jt]sx?))"
)
"""Files of SvelteKit, Vike, Expo and React Router: no command of an editor is called so."""
_ARGUMENTS = re.compile(
    r"@.*\.(?:[chmsoad]|cc|cpp|cxx|hh|hpp|mm|java|rs|f|f90|kt|kts|swift|cs|fs|vb|dart)",
    re.IGNORECASE | re.DOTALL,
)
"""What compilers read options from, when they are called with a pattern for their sources."""
_SHELL = re.compile(r"[|;`]|\$[({]|\S&[a-z]{2,}(?:\s|$)|&&")
"""What a shell runs, or takes for the end of a command, where a name is put into its text."""
_HOME = re.compile(r"~(?:[a-z_][\w-]*)?")


def why_odd(path: str) -> str:
    """Return what is odd about a path's names; empty where nothing is.

    Below folders of installed packages, where nobody works with `*`, only what does not show is.
    """
    if _CONTROL.search(path):
        return "a name in it holds a line's end or another control character"
    if _UNSEEN.search(path):
        return "a name in it holds characters that do not show, or turn the order of others round"
    for name in path.split("/"):
        if name in _PACKAGES:
            return ""
        if why := _taken_for(name):
            return why
    return ""


def _taken_for(name: str) -> str:
    match name[:1]:
        case "-":
            return "programs take a name that begins with `-` for an option"
        case "+" if _ROUTE.fullmatch(name) is None:
            return "editors and pagers take a name that begins with `+` for a command"
        case ":":
            return "git takes a name that begins with `:` for a pattern"
        case "@" if _ARGUMENTS.fullmatch(name):
            return "compilers take a name that begins with `@` for a file of options"
        case "~" if _HOME.fullmatch(name):
            return "shells take such a name for somebody's home"
        case ">" | "<" | "&":
            return f"perl and shells take what follows a `{name[0]}` for a file to open"
        case " ":
            return "a name in it begins with a space, and scripts take what follows for the name"
    if _SHELL.search(name):
        return "scripts put names into a shell's text, which would run a part of it"
    return ""
