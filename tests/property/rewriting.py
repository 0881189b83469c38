# SPDX-License-Identifier: Apache-2.0
"""Rewrite a command line into others that do the same thing, for tests of the reading.

Three families: `WRAPPINGS` take any text and give it to something that runs it; `SETTINGS` put a
text that is whole by itself into the middle of other syntax; `SPELLINGS` take a plain command,
word by word. A rewriting returns None where it does not fit. Those in `OPAQUE` hide what runs from
everybody who does not run it; all others can be read.
"""

from __future__ import annotations

import base64
import codecs
import re
import shlex
from collections.abc import Callable

from policy.shell.syntax import guards as shell_guards

Rewriting = Callable[[str], str | None]
Spelling = Callable[[list[str]], str | None]

_SAFE = re.compile(r"[\w./=:@,+%^ -]+")
_PROGRAM = re.compile(r"[a-z][\w.-]*")
_RESERVED = frozenset(
    ("if", "for", "while", "until", "case", "select", "function", "time", "coproc", "do", "done",
     "then", "fi", "esac", "in", "else", "elif")
)  # fmt: skip
_BUILTINS = frozenset(
    ("alias", "bg", "builtin", "cd", "command", "complete", "compgen", "declare", "dirs", "disown",
     "enable", "eval", "exec", "exit", "export", "fc", "getopts", "hash", "history", "jobs", "let",
     "local", "mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly",
     "return", "set", "shift", "shopt", "source", "test", "times", "trap", "type", "typeset",
     "ulimit", "umask", "unalias", "unset", "wait", "echo", "true", "false")
)  # fmt: skip
"""Names that mean a builtin, so that a path, a copy or another program cannot stand for them."""

q = shlex.quote


def _dq(text: str) -> str:
    """Return text between double quotes."""
    return '"' + re.sub(r'([\\$`"])', r"\\\1", text) + '"'


def _ansi(text: str) -> str:
    """Return text between `$'` and `'`, every byte as a number."""
    return "$'" + "".join(f"\\x{one:02x}" for one in text.encode()) + "'"


def _octal(text: str) -> str:
    return "$'" + "".join(f"\\{one:03o}" for one in text.encode()) + "'"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _printable(rewriting: Rewriting) -> Rewriting:
    """Leave texts alone that cannot be passed as an argument."""
    return lambda text: None if _odd(text) else rewriting(text)


def _odd(text: str) -> bool:
    return any(one in text for one in "\x00\ue000\r") or not (text.isprintable() or "\n" in text)


def _one_line(rewriting: Rewriting) -> Rewriting:
    return _printable(lambda text: None if "\n" in text or "\\" in text else rewriting(text))


WRAPPINGS: dict[str, Rewriting] = {
    name: _printable(one)
    for name, one in {
        "sh -c": lambda t: f"sh -c {q(t)}",
        "bash -c": lambda t: f"bash -c {q(t)}",
        "bash -c in double quotes": lambda t: f"bash -c {_dq(t)}",
        "bash -c in ANSI-C quotes": lambda t: f"bash -c {_ansi(t)}",
        "bash -c in octal": lambda t: f"bash -c {_octal(t)}",
        "bash -lc": lambda t: f"bash -lc {q(t)}",
        "bash with options": lambda t: f"bash --norc -eu -o pipefail -c {q(t)} bash",
        "a shell by its path": lambda t: f"/usr/bin/env bash -c {q(t)}",
        "other shells": lambda t: f"zsh -c {q(t)}",
        "dash": lambda t: f"/bin/dash -c {q(t)}",
        "busybox": lambda t: f"busybox sh -c {q(t)}",
        "shells in shells": lambda t: f"sh -c {q('bash -c ' + q('sh -c ' + q(t)))}",
        "eval": lambda t: f"eval {q(t)}",
        "eval twice": lambda t: f"eval eval {q(q(t))}",
        "builtin eval": lambda t: f"builtin eval {q(t)}",
        "command eval": lambda t: f"command eval -- {q(t)}",
        "eval of a variable": lambda t: f'lg={q(t)}; eval "$lg"',
        "bash -c of a variable": lambda t: f'lg={q(t)}; bash -c "$lg"',
        "an exported variable": lambda t: f"export lg={q(t)}; bash -c 'eval \"$lg\"'",
        "a variable of the call": lambda t: f"lg={q(t)} bash -c 'eval \"$lg\"'",
        "a declared variable": lambda t: f'declare -r lg={q(t)}; eval "${{lg}}"',
        "a default": lambda t: "eval \"${nothing:-" + re.sub(r'([\\$`"}])', r"\\\1", t) + '}"',
        "printf -v": lambda t: f"printf -v lg %s {q(t)}; eval \"$lg\"",
        "read from a here-string": lambda t: (
            f"IFS= read -r -d '' lg <<< {q(t)}; eval \"$lg\"" if "\n" not in t else None
        ),
        "positional parameters": lambda t: f"set -- {q(t)}; eval \"$1\"",
        "a parameter of bash -c": lambda t: f"bash -c 'eval \"$1\"' bash {q(t)}",
        "a parameter of a function": lambda t: f"run() {{ eval \"$1\"; }}; run {q(t)}",
        "an array's element": lambda t: f"a=(x {q(t)}); eval \"${{a[1]}}\"",
        "an associative array": lambda t: f"declare -A a=([k]={q(t)}); eval \"${{a[k]}}\"",
        "indirection": lambda t: f"lg={q(t)}; n=lg; eval \"${{!n}}\"",
        "a name reference": lambda t: f"lg={q(t)}; declare -n n=lg; eval \"$n\"",
        "a loop over texts": lambda t: f"for lg in : {q(t)}; do eval \"$lg\"; done",
        "a loop over lines": lambda t: (
            None if "\n" in t else f"while IFS= read -r lg; do eval \"$lg\"; done <<< {q(t)}"
        ),
        "mapfile": lambda t: None if "\n" in t else f"mapfile -t a <<< {q(t)}; eval \"${{a[0]}}\"",
        "an alias": lambda t: f"shopt -s expand_aliases; alias go={q(t)}\ngo",
        "a trap": lambda t: f"trap {q(t)} EXIT",
        "a trap on each command": lambda t: f"trap {q(t)} DEBUG; :",
        "a pipe": lambda t: f"echo {q(t)} | sh",
        "printf into a pipe": lambda t: f"printf '%s\\n' {q(t)} | bash -s",
        "a pipe through cat": lambda t: f"printf %s {q(t)} | cat - | tee log.txt | bash",
        "a here-string": lambda t: f"bash <<< {q(t)}",
        "a here-string at the front": lambda t: f"<<< {q(t)} bash",
        "a here-document": lambda t: f"bash <<'THE_END'\n{t}\nTHE_END",
        "a here-document with a backslash": lambda t: f"sh -s <<\\THE_END\n{t}\nTHE_END",
        "an indented here-document": lambda t: (
            None if "\n" in t or t.startswith("\t") else f"sh <<-'THE_END'\n\t\t{t}\n\tTHE_END"
        ),
        "a here-document to source": lambda t: f". /dev/stdin <<'THE_END'\n{t}\nTHE_END",
        "a here-document through cat": lambda t: f"cat <<'THE_END' | bash\n{t}\nTHE_END",
        "a process substitution": lambda t: f"bash <(printf %s {q(t)})",
        "source of a process substitution": lambda t: f"source <(echo {q(t)})",
        "an output process substitution": lambda t: f"echo {q(t)} > >(bash)",
        "a substitution that is evaluated": lambda t: f"eval \"$(printf '%s' {q(t)})\"",
        "a substitution given to bash": lambda t: f"bash -c \"$(cat <<'THE_END'\n{t}\nTHE_END\n)\"",
        "a written script": lambda t: f"printf '%s\\n' {q(t)} > t.sh; bash t.sh",
        "a written script that is run": lambda t: (
            f"cat > t.sh <<'THE_END'\n#!/bin/bash\n{t}\nTHE_END\nchmod +x t.sh && ./t.sh"
        ),
        "a script by tee": lambda t: f"tee t.sh >/dev/null <<< {q(t)}; . ./t.sh",
        "a script in pieces": lambda t: f"printf '#!/bin/sh\\n' > t; echo {q(t)} >> t; sh ./t",
        "a script that is moved": lambda t: f"echo {q(t)} > a; mv a b; sh b",
        "a script that is copied": lambda t: f"echo {q(t)} > a; cp a b; sh b",
        "a script that is linked": lambda t: f"echo {q(t)} > a; ln -s a b; sh b",
        "a start-up file": lambda t: f"echo {q(t)} > a; BASH_ENV=a bash -c :",
        "a descriptor": lambda t: f"exec 3<<< {q(t)}; bash <&3",
        "a descriptor by its path": lambda t: f"bash /dev/fd/3 3<<< {q(t)}",
        "base64": lambda t: f"echo {_base64(t)} | base64 -d | bash",
        "base64 in a here-string": lambda t: f"base64 --decode <<< {_base64(t)} | sh",
        "base64 in eval": lambda t: f"eval \"$(echo {_base64(t)} | base64 -d)\"",
        "hexadecimal": lambda t: f"echo {t.encode().hex()} | xxd -r -p | sh",
        "printf of bytes": lambda t: (
            "printf '" + "".join(f"\\x{one:02x}" for one in t.encode()) + "' | sh"
        ),
        "echo of bytes": lambda t: (
            "echo -e '" + "".join(f"\\x{one:02x}" for one in t.encode()) + "' | sh"
        ),
        "rev": lambda t: None if "\n" in t or not t.isascii() else f"echo {q(t[::-1])} | rev | sh",
        "rot13": lambda t: (
            f"echo {q(codecs.encode(t, 'rot13'))} | tr A-Za-z N-ZA-Mn-za-m | sh"
            if t.isascii() else None
        ),
        "case folding": lambda t: (
            f"echo {q(t.upper())} | tr A-Z a-z | sh" if t == t.upper().lower() else None
        ),
        "env": lambda t: f"env A=1 -u B bash -c {q(t)}",
        "env -S": lambda t: f"env -S {q('bash -c ' + q(t))}" if "'" not in t else None,
        "sudo": lambda t: f"sudo -u root bash -c {q(t)}",
        "su": lambda t: f"su -c {q(t)}",
        "doas": lambda t: f"doas sh -c {q(t)}",
        "timeout": lambda t: f"timeout -k 5 -s KILL 10s bash -c {q(t)}",
        "nice": lambda t: f"nice -n 19 ionice -c 3 sh -c {q(t)}",
        "nohup": lambda t: f"nohup sh -c {q(t)} >/dev/null 2>&1 &",
        "setsid": lambda t: f"setsid -f bash -c {q(t)}",
        "stdbuf": lambda t: f"stdbuf -oL bash -c {q(t)}",
        "time": lambda t: f"time -p bash -c {q(t)}",
        "/usr/bin/time": lambda t: f"/usr/bin/time -v bash -c {q(t)}",
        "exec": lambda t: f"exec bash -c {q(t)}",
        "command": lambda t: f"command -p bash -c {q(t)}",
        "xargs": lambda t: f"echo x | xargs -I@@ sh -c {q(t)}",
        "xargs with items": lambda t: f"printf '%s\\0' {q(t)} | xargs -0 -n1 bash -c",
        "find -exec": lambda t: f"find . -maxdepth 0 -exec sh -c {q(t)} \\;",
        "find -execdir": lambda t: f"find . -maxdepth 0 -execdir bash -c {q(t)} {{}} +",
        "parallel": lambda t: f"parallel ::: {q(t)}",
        "watch": lambda t: f"watch -n 1 {q(t)}",
        "flock": lambda t: f"flock /tmp/l -c {q(t)}",
        "script": lambda t: f"script -qc {q(t)} /dev/null",
        "ssh": lambda t: f"ssh host {q(t)}",
        "docker exec": lambda t: f"docker exec c sh -c {q(t)}",
        "a git alias": lambda t: f"git -c alias.x={q('!' + t)} x",
        "awk": lambda t: (
            f"awk {q('BEGIN { system(' + _json(t) + ') }')}" if "\n" not in t else None
        ),
        "python": lambda t: f"python3 -c {q('import os; os.system(' + _json(t) + ')')}",
        "python, a list": lambda t: (
            "python3 -c "
            + q("import subprocess as s; s.run(['bash', '-c', " + _json(t) + "])")
        ),
        "node": lambda t: (
            "node -e " + q("require('child_process').execSync(" + _json(t) + ")")
        ),
        "xargs of a command": lambda t: None if re.search(r"['\"\\\n]", t) else (
            f"echo {q(t)} | xargs -I% bash -c %"
        ),
    }.items()
}  # fmt: skip


def _json(text: str) -> str:
    """Return a literal that python, node and awk read alike."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


SETTINGS: dict[str, Rewriting] = {
    "after another": lambda t: f"echo start; {t}",
    "after a newline": lambda t: f"\n\n  \n{t}",
    "after &&": lambda t: f"true && {t}",
    "after ||": lambda t: f"false || {t}",
    "before another": lambda t: f"{t}\necho done",
    "before &&": lambda t: f"{t} && echo done",
    "in the background": lambda t: f"{t} &",
    "with blanks": lambda t: f"\t   {t}   \t",
    "with a comment": lambda t: f"{t} # just a test",
    "after a comment": lambda t: f"# it's only a comment \\\n{t}",
    "after an odd comment": lambda t: f"ls #x ${{ ( \" ` '\n{t}",
    "after a here-document": lambda t: f"cat <<'E' >/dev/null\n'\"$( `\nE\n{t}",
    "in a subshell": lambda t: f"({t})",
    "in nested subshells": lambda t: f"( ( {t} ) )",
    "in a group": lambda t: f"{{ {t}\n}}",
    "in a group with output": lambda t: f"{{ {t}\n}} > /dev/null 2>&1",
    "with errors thrown away": lambda t: f"( {t} ) 2>/dev/null || true",
    "negated": lambda t: f"! {{ {t}\n}}",
    "timed": lambda t: f"time {{ {t}\n}}",
    "a function": lambda t: f"f() {{\n{t}\n}}\nf",
    "a function with the keyword": lambda t: f"function f {{\n{t}\n}}; f x",
    "a function in a subshell": lambda t: f"f() (\n{t}\n); f",
    "a function of another's name": lambda t: f"cargo() {{\n{t}\n}}\ncargo b",
    "a function that is only defined": lambda t: f"f() {{\n{t}\n}}",
    "a function in a function": lambda t: f"f() {{ g() {{\n{t}\n}}; g; }}; f",
    "then": lambda t: f"if true; then\n{t}\nfi",
    "a condition": lambda t: f"if {t}\nthen :; fi",
    "elif": lambda t: f"if false; then :; elif true; then\n{t}\nfi",
    "else": lambda t: f"if false; then :; else\n{t}\nfi",
    "for": lambda t: f"for i in 1 2; do\n{t}\ndone",
    "for over arguments": lambda t: f"set -- 1; for i; do\n{t}\ndone",
    "for as in C": lambda t: f"for ((i=0; i<1; i++)); do\n{t}\ndone",
    "while": lambda t: f"while true; do\n{t}\nbreak; done",
    "until": lambda t: f"until false; do\n{t}\nbreak; done",
    "while's condition": lambda t: f"while {t}\ndo break; done",
    "case": lambda t: f"case x in\n(x)\n{t}\n;;\nesac",
    "a case that falls through": lambda t: f"case x in x) :;& y) {t}\n;; esac",
    "select": lambda t: f"select i in a; do\n{t}\nbreak; done <<< 1",
    "a coprocess": lambda t: f"coproc {{ {t}\n}}",
    "a named coprocess": lambda t: f"coproc N {{ {t}\n}}; wait",
    "a pipe's start": lambda t: f"{{ {t}\n}} | cat",
    "a pipe's end": lambda t: f"echo | {{ {t}\n}}",
    "a pipe with errors": lambda t: f"( {t} ) |& tee log.txt",
    "a substitution": lambda t: f"echo $(\n{t}\n)",
    "a quoted substitution": lambda t: f"echo \"a $({t}\n) b\"",
    "an assignment": lambda t: f"kept=$({t}\n)",
    "an exported assignment": lambda t: f"export kept=$({t}\n)",
    "an array's assignment": lambda t: f"a=( $({t}\n) )",
    "a local variable": lambda t: f"f() {{ local kept=$({t}\n); }}; f",
    "a prefix": lambda t: f"X=$({t}\n) ls",
    "a default": lambda t: f": ${{nothing:-$({t}\n)}}",
    "a quoted default": lambda t: f": \"${{nothing:-$({t}\n)}}\"",
    "an alternative": lambda t: f"kept=1; : ${{kept:+$({t}\n)}}",
    "a pattern": lambda t: f"kept=1; : ${{kept#$({t}\n)}}",
    "a replacement": lambda t: f"kept=1; : ${{kept/1/$({t}\n)}}",
    "a subscript": lambda t: f"a[$({t}\n)]=1",
    "arithmetic": lambda t: f": $(( 1 + $({t}\n) ))",
    "an arithmetic command": lambda t: f"(( x = $({t}\n) ))",
    "a slice": lambda t: f"kept=abc; : ${{kept:$({t}\n)}}",
    "a test": lambda t: f"[[ -n $({t}\n) ]]",
    "an old test": lambda t: f"[ -n \"$({t}\n)\" ]",
    "a case's word": lambda t: f"case $({t}\n) in *) ;; esac",
    "a case's pattern": lambda t: f"case x in $({t}\n)) ;; esac",
    "a loop's words": lambda t: f"for i in $({t}\n); do :; done",
    "a redirection's target": lambda t: f"ls > log$({t}\n)",
    "a here-string": lambda t: f"cat <<< $({t}\n)",
    "a here-document": lambda t: f"cat <<E\n$({t}\n)\nE",
    "a process substitution": lambda t: f"cat <({t}\n)",
    "two process substitutions": lambda t: f"diff <(ls) <({t}\n)",
    "an output process substitution": lambda t: f"ls > >({t}\n)",
    "a deep substitution": lambda t: f"echo \"$(echo \"$(echo \"$({t}\n)\")\")\"",
    "a substitution in a prompt": lambda t: (
        f"kept='$({t}\n)'; : ${{kept@P}}" if "'" not in t else None
    ),
    "carriage returns": lambda t: f"echo a\r\n{t}\r\n",
    "an invisible character": lambda t: f"echo \u200b; {t}",
    "a direction override": lambda t: f"echo \u202e; {t}",
    "a byte order mark": lambda t: f"echo \ufeff; {t}",
    "a forged mark": lambda t: f"echo \ue000; {t}",
    "a control character": lambda t: f"echo \x01; {t}",
    "blank padding": lambda t: f"echo ok{' ' * 5000}; {t}",
    "many lines before": lambda t: "echo ok\n" * 200 + t,
    "many lines after": lambda t: t + "\necho ok" * 200,
}  # fmt: skip


def backticks(text: str) -> str | None:
    """Return the text between backticks."""
    return None if re.search(r"[`\\$]", text) else f"echo `{text}`"


SETTINGS["backticks"] = backticks


def whole(text: str) -> bool:
    """Whether a text is whole by itself, so that it may stand in the middle of other syntax."""
    if "<<" in text or "\r" in text or text.endswith("\\") or shell_guards.before(text):
        return False
    if (
        _INPUT.fullmatch(text)
        or "#" in text
        or text.rstrip().endswith(("&", ";"))
        or "alias" in text
    ):
        return False
    return shell_guards.after(raw := shell_guards.encode(text), shell_guards.parse(raw)) is None


def words(text: str) -> list[str] | None:
    """Return the words of a plain command, or None: a program's name, then words without quotes."""
    if not _SAFE.fullmatch(text):
        return None
    if _INPUT.fullmatch(text):
        return None
    found = text.split()
    name = found[0] if found else ""
    return found if _PROGRAM.fullmatch(name) and name not in _RESERVED else None


def _external(spelling: Spelling) -> Spelling:
    return lambda w: None if w[0] in _BUILTINS else spelling(w)


def _j(first: str, w: list[str]) -> str:
    return " ".join([first, *w[1:]])


def _each(quote: Callable[[str], str]) -> Spelling:
    return lambda w: " ".join(quote(one) for one in w)


def _between(gap: str) -> Spelling:
    """Put something that is nothing after the first letter of each word of letters."""
    return lambda w: " ".join(
        one[0] + gap + one[1:] if one[:1].isalpha() and one[1:2].isalnum() and "=" not in one
        else one
        for one in w
    )  # fmt: skip


SPELLINGS: dict[str, Spelling] = {
    "single quotes": _each(lambda one: f"'{one}'"),
    "double quotes": _each(lambda one: f'"{one}"'),
    "ANSI-C quotes": _each(lambda one: f"$'{one}'"),
    "bytes": _each(_ansi),
    "octal bytes": _each(_octal),
    "Unicode escapes": _each(lambda one: "$'" + "".join(f"\\u{ord(c):04x}" for c in one) + "'"),
    "translated quotes": _each(lambda one: f'$"{one}"'),
    "every character escaped": _each(lambda one: "".join("\\" + c for c in one)),
    "every character quoted": _each(lambda one: "".join(f"'{c}'" for c in one)),
    "empty single quotes": _between("''"),
    "empty double quotes": _between('""'),
    "empty ANSI-C quotes": _between("$''"),
    "a backslash": _between("\\"),
    "an unset variable": _between("${nothing}"),
    "no parameters": _between("$@"),
    "an empty substitution": _between("$()"),
    "an empty slice": _between("${HOME:0:0}"),
    "a continued word": _between("\\\n"),
    "quotes around the name": lambda w: _j(f"'{w[0]}'", w),
    "a backslash before the name": lambda w: _j("\\" + w[0], w),
    "an unset variable before the name": lambda w: _j("$nothing " + w[0], w),
    "a continued line": lambda w: " \\\n  ".join(w),
    "tabs": lambda w: "\t".join(w),
    "many blanks": lambda w: "   ".join(w),
    "a variable": lambda w: _j(f"c={w[0]}; $c", w),
    "a quoted variable": lambda w: _j(f'c={w[0]}; "$c"', w),
    "a variable in pieces": lambda w: _j(f"a={w[0][0]}; b={w[0][1:]}; $a$b", w),
    "a variable that grows": lambda w: _j(f"a={w[0][0]}; a+={w[0][1:]}; $a", w),
    "a default as the name": lambda w: _j(f"${{nothing:-{w[0]}}}", w),
    "an assigned default": lambda w: _j(f"${{c:={w[0]}}}", w),
    "a replacement": lambda w: _j(f"c=X{w[0][1:]}; ${{c/X/{w[0][0]}}}", w),
    "a cut prefix": lambda w: _j(f"c=xx{w[0]}; ${{c#xx}}", w),
    "a slice": lambda w: _j(f"c=xx{w[0]}; ${{c:2}}", w),
    "lower case": lambda w: (
        _j(f"c={w[0].upper()}; ${{c,,}}", w) if w[0] == w[0].lower() else None
    ),
    "arguments in a variable": lambda w: f"a={q(' '.join(w[1:]))}; {w[0]} $a",
    "everything in a variable": lambda w: f"a={q(' '.join(w))}; $a",
    "an option in a variable": lambda w: (
        f"o={w[1]}; {w[0]} $o {' '.join(w[2:])}" if len(w) > 1 else None
    ),
    "the last word in a variable": lambda w: (
        f"p={w[-1]}; {' '.join(w[:-1])} \"$p\"" if len(w) > 1 else None
    ),
    "an array": lambda w: f"a=({' '.join(w)}); \"${{a[@]}}\"",
    "an array that grows": lambda w: f"a=({w[0]}); a+=({' '.join(w[1:])}); \"${{a[@]}}\"",
    "an array's elements": lambda w: f"a=({' '.join(w)}); ${{a[0]}} \"${{a[@]:1}}\"",
    "positional parameters": lambda w: f"set -- {' '.join(w)}; \"$@\"",
    "a function's parameters": lambda w: f"f() {{ \"$@\"; }}; f {' '.join(w)}",
    "a shifted parameter": lambda w: f"set -- x {' '.join(w)}; shift; $*",
    "indirection": lambda w: _j(f"c={w[0]}; n=c; ${{!n}}", w),
    "a brace": lambda w: (
        "{" + ",".join(w) + "}" if len(w) > 1 and "," not in "".join(w) else None
    ),
    "the separator": lambda w: "${IFS}".join(w) if all("$" not in one for one in w) else None,
    "another separator": lambda w: (
        f"IFS=,; c={','.join(w)}; $c" if "," not in "".join(w) else None
    ),
    "a substitution as the name": lambda w: _j(f"$(echo {w[0]})", w),
    "backticks as the name": lambda w: _j(f"`echo {w[0]}`", w),
    "a substitution as the command": lambda w: f"$(printf '%s ' {' '.join(w)})",
    "the name printed in pieces": lambda w: _j(f"$(printf '%s%s' {w[0][0]} {w[0][1:] or '``'})", w),
    "the name decoded": lambda w: _j(f"$(echo {_base64(w[0])} | base64 -d)", w),
    "the name reversed": lambda w: _j(f"$(echo {w[0][::-1]} | rev)", w),
    "the last word substituted": lambda w: (
        f"{' '.join(w[:-1])} $(echo {w[-1]})" if len(w) > 1 and w[-1][0] != "-" else None
    ),
    "the name read": lambda w: _j(f"read -r c <<< {w[0]}; $c", w),
    "the name by printf -v": lambda w: _j(f"printf -v c %s {w[0]}; $c", w),
    "a path": _external(lambda w: _j("/bin/" + w[0], w)),
    "another path": _external(lambda w: _j("/usr/bin/" + w[0], w)),
    "a path with detours": _external(lambda w: _j("/usr/bin/../bin/./" + w[0], w)),
    "a path with slashes": _external(lambda w: _j("//usr///bin//" + w[0], w)),
    "a relative path": _external(lambda w: _j("../bin/" + w[0], w)),
    "after cd": _external(lambda w: "cd /usr; cd - >/dev/null; " + " ".join(w)),
    "a copy of the program": _external(lambda w: _j(f"cp /bin/{w[0]} ./x; ./x", w)),
    "a link to the program": _external(lambda w: _j(f"ln -s /bin/{w[0]} ./x; ./x", w)),
    "a copy by which": _external(lambda w: _j(f"cp $(which {w[0]}) ./x; ./x", w)),
    "a copy on the path": _external(lambda w: _j(f"cp /bin/{w[0]} ./x; PATH=.:$PATH; x", w)),
    "command": lambda w: _j("command " + w[0], w),
    "builtin command": lambda w: _j("builtin command -- " + w[0], w),
    "exec": _external(lambda w: _j("exec " + w[0], w)),
    "exec in a subshell": _external(lambda w: f"(exec {' '.join(w)})"),
    "env": _external(lambda w: _j("env -i A=1 " + w[0], w)),
    "env -S": _external(lambda w: f"env -S '{' '.join(w)}'"),
    "env in one": _external(lambda w: _j(f"env -uX -C . -- {w[0]}", w)),
    "wrappers": _external(lambda w: _j("nice -n 5 timeout 5 stdbuf -o0 ionice -c3 " + w[0], w)),
    "nohup": _external(lambda w: _j("nohup " + w[0], w) + " &"),
    "sudo": _external(lambda w: _j("sudo -n -E " + w[0], w)),
    "time": lambda w: _j("time -p " + w[0], w),
    "not": lambda w: _j("! " + w[0], w),
    "xargs": _external(lambda w: f"printf '%s ' {' '.join(w[1:])} | xargs {w[0]}"),
    "xargs of everything": _external(lambda w: f"echo {' '.join(w)} | xargs env"),
    "xargs -I": _external(
        lambda w: (
            f"echo {w[-1]} | xargs -I%% {' '.join(w[:-1])} %%"
            if len(w) > 1 and w[-1][0] != "-" else None
        )
    ),
    "find -exec": _external(lambda w: f"find . -maxdepth 0 -exec {' '.join(w)} \\;"),
    "an assignment before": lambda w: _j("LANG=C A=b " + w[0], w),
    "a redirection before": lambda w: _j(">/dev/null " + w[0], w),
    "redirections before": lambda w: _j("2>&1 </dev/null >/dev/null " + w[0], w),
    "a redirection inside": lambda w: " ".join([w[0], ">/dev/null", *w[1:]]),
    "redirections at the end": lambda w: " ".join(w) + " >/dev/null 2>&1 </dev/null",
    "a redirection without blanks": lambda w: " ".join(w) + ">/dev/null",
    "both redirected": lambda w: " ".join(w) + " &>/dev/null",
    "a closed descriptor": lambda w: " ".join(w) + " 2>&-",
    "a here-string": lambda w: " ".join(w) + " <<< y",
    "a here-document": lambda w: " ".join(w) + " <<'E'\ny\nE",
    "a here-document with more": lambda w: "cat <<'E' && " + " ".join(w) + "\ny\nE",
    "no blank after a semicolon": lambda w: "ls;" + " ".join(w) + ";ls",
    "no blank after &": lambda w: "ls&" + " ".join(w) + "&",
    "eval of words": lambda w: "eval " + " ".join(w),
    "eval of parts": lambda w: f"a={w[0]}; eval '$a' {' '.join(w[1:])}",
    "a python list": _external(
        lambda w: f"python3 -c \"import subprocess; subprocess.run({w!r})\""
    ),
}  # fmt: skip

OPAQUE = frozenset(
    ("carriage returns", "an invisible character", "a direction override", "a byte order mark",
     "a forged mark", "a control character", "select", "a relative path", "a default",
     "a pattern", "a slice")
)  # fmt: skip
"""Rewritings after which a text may be read with less certainty."""
SHOWN = frozenset(
    ("carriage returns", "a control character", "a default", "a pattern", "a slice",
     "a redirection's target")
)  # fmt: skip
"""Rewritings after which even a mention of something forbidden may be refused."""
PRIVILEGED = frozenset(("sudo", "su", "doas"))
"""Rewritings that take another user's rights, which nothing may."""
_POSITIONAL = frozenset(
    ("positional parameters", "a parameter of bash -c", "a parameter of a function",
     "xargs with items", "find -exec", "find -execdir")
)  # fmt: skip
_GIVEN = re.compile(r"\$\{?[@*#0-9]")
_ARRAY = re.compile(r"\$\{?[!#]?[an]\b|\$\{?[!#]?lg\b|\b[an]=")
_INPUT = re.compile(r"(?:\S*/)?(?:sh|bash|zsh|dash|node|python3?|perl|ruby)(?: -[iqs])?")
"""Programs that run what they read; another input makes another command of them."""


def fits(name: str, text: str) -> bool:
    """Whether a wrapping leaves the meaning of a text as it is."""
    if name in _POSITIONAL and (_GIVEN.search(text) or "{}" in text):
        return False
    return not (_INPUT.fullmatch(text) or "go" in text.split() or _ARRAY.search(text))
