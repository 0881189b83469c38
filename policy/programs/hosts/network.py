# SPDX-License-Identifier: Apache-2.0
"""Programs that talk to other machines: downloads, uploads, logins, raw connections."""

from __future__ import annotations

import re

from policy.facts import How
from policy.hosts import of_address
from policy.model import Tier
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell import leaks
from policy.shell.interpreter import Shell
from policy.shell.redirects import MOST_SOCKETS, store
from policy.shell.state import Call
from policy.values.argv import Parsed, parse
from policy.values.partial import HOLE, NET, shown

_METADATA = re.compile(
    r"169\.254\.169\.254|metadata\.google\.internal|100\.100\.100\.200|fd00:ec2::254", re.IGNORECASE
)
_METADATA_SECRET = re.compile(
    r"credential|token|security|identity|user-data|service-account", re.IGNORECASE
)


def talks(shell: Shell, call: Call, entry: Programs) -> None:
    """Record that a program talks to other machines."""
    shell.facts.network = True
    leaks.sent(shell, call)
    leaks.prints_variable(shell, call, "sends")
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    for word in call.args:
        if _METADATA.search(word) and _METADATA_SECRET.search(word):
            shell.find(
                Tier.FORBIDDEN, "secrets", "it asks the cloud's metadata service for credentials"
            )


_HOST = re.compile(r"(?:\w+://)?(\d+\.\d+\.\d+\.\d+)")
_MOST_HOSTS = 16
"""Addresses that one call may ask without going through a range."""


def _download(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    talks(shell, call, entry)
    if call.name in ("lynx", "w3m", "links", "elinks", "GET", "lwp-request"):
        return NET
    hosts = {found[1] for argument in call.args if (found := _HOST.match(argument)) is not None}
    if len(hosts) > _MOST_HOSTS:
        shell.find(Tier.FORBIDDEN, "scan", f"`{call.name}` goes through a range of addresses")
    wget = call.name.startswith("wget") or call.name in ("aria2c", "axel")
    parsed = parse(call.args, entry.values)
    shell.facts.writes = True
    data = (
        *parsed.values("-d", "--data", "--data-binary", "--data-urlencode", "--json"),
        *parsed.values("-F", "--form"),
    )
    for value in data if not wget else ():
        found = re.search(r"(?:^|=)[@<]([^;]+)", value)
        if found:
            shell.touch(How.READ, found[1], program=call.name)
    reads = (
        (
            "-T",
            "--upload-file",
            "-K",
            "--config",
            "--cert",
            "-E",
            "--key",
            "--netrc-file",
            "-b",
            "--cookie",
            "--cacert",
        )
        if not wget
        else (
            "--post-file",
            "--body-file",
            "-i",
            "--input-file",
            "--load-cookies",
            "--certificate",
            "--private-key",
            "--config",
        )
    )
    for value in parsed.values(*reads):
        if value not in ("-", ".") and not re.search(r"[=;]", value):
            shell.touch(How.READ, value, program=call.name)
    for value in parsed.values("--unix-socket"):
        shell.touch(How.READ, value, program=call.name)
    if wget and parsed.has("--use-askpass"):
        shell.run_text(parsed.value("--use-askpass"))
    outputs = (
        parsed.values("-o", "--output", "-O", "--output-document", "--out")
        if not wget or call.name in ("aria2c", "axel")
        else parsed.values("-O", "--output-document")
    )
    logs = (
        parsed.values(
            "-c",
            "--cookie-jar",
            "-D",
            "--dump-header",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--libcurl",
            "--etag-save",
            "--hsts",
            "--alt-svc",
        )
        if not wget
        else parsed.values(
            "-o",
            "--output-file",
            "-a",
            "--append-output",
            "--save-cookies",
            "--rejected-log",
            "--warc-file",
        )
    )
    for path in logs:
        catalog.use(shell, Use.WRITE, path, call)
    folder = parsed.value("--output-dir", "-P", "--directory-prefix", "--dir", "-d")
    base = folder.rstrip("/") + "/" if folder else ""
    for url in (*parsed.operands, *parsed.values("--url")):
        if (host := of_address(url, "http")) is not None and not _proxied(parsed):
            shell.facts.hosts[host] = None
        if url.startswith("file://"):
            shell.touch(How.READ, url.removeprefix("file://"), program=call.name)
    if not outputs and (wget or parsed.has("-O", "--remote-name", "-J", "--remote-name-all")):
        outputs = [
            re.sub(r"[?#].*", "", operand).rstrip("/").rsplit("/", 1)[-1] or "index.html"
            for operand in parsed.operands
        ]
    written = False
    for path in outputs:
        if path in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            continue
        target = path if path.startswith("/") else base + path
        if shell.feed(target, NET):
            continue
        written = True
        if target != "/dev/null":
            shell.touch(How.WRITE, target, program=call.name)
            store(shell, target, NET)
    return "" if written and not parsed.has("-v") else NET


def _proxied(parsed: Parsed) -> bool:
    """Whether a request goes by way of another host than its address names."""
    return parsed.has("-x", "--proxy", "--preproxy", "--socks5", "--socks4", "--resolve",
                      "--connect-to", "--socks5-hostname", "--socks4a", "--dns-servers",
                      "--doh-url", "-e", "--execute")  # fmt: skip


_SWEEP = re.compile(r"\d+\.\d+\.\d+\.(?:\{|\d+/\d+|\d+-\d+|[\ue000-\ue006])|/(?:8|16|24)\b")


def _remote(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    talks(shell, call, entry)
    name = call.name
    if name in ("ssh", "scp", "sftp", "autossh", "mosh", "sshpass"):
        return _secure(catalog, shell, call, entry)
    if any(_SWEEP.search(argument) for argument in call.args) or (
        name in ("ping", "fping", "nc", "ncat", "netcat", "telnet") and _looping(shell, call)
    ):
        shell.find(Tier.FORBIDDEN, "scan", f"`{name}` goes through a range of addresses")
    parsed = parse(
        call.args,
        (
            "-e",
            "-c",
            "-p",
            "-w",
            "-s",
            "-x",
            "-X",
            "-i",
            "-I",
            "-W",
            "-q",
            "-g",
            "-G",
            "-S",
            "-T",
            "--exec",
            "--sh-exec",
            "-a",
            "-A",
            "-o",
            "-O",
            "-t",
        ),
    )
    if name.startswith("ping") and "-b" in call.args:
        shell.find(Tier.FORBIDDEN, "scan", "`ping -b` asks every machine of a network")
    if name in ("nc", "ncat", "netcat"):
        if parsed.has("-z") and any(re.search(r"\d-\d", argument) for argument in call.args):
            shell.find(Tier.FORBIDDEN, "scan", f"`{name} -z` goes through ports")
        for text in parsed.values("-e", "-c", "--exec", "--sh-exec"):
            shell.find(
                Tier.FORBIDDEN, "remote-script", f"`{name}` gives a program to another machine"
            )
            shell.run_text(text)
    if name == "socat":
        for word in call.args:
            found = re.match(r"(?:EXEC|SYSTEM|SHELL):\s*([^,]+)", word, re.IGNORECASE)
            if found:
                shell.find(
                    Tier.FORBIDDEN,
                    "remote-script",
                    "`socat` connects a program with another machine",
                )
                shell.run_text(found[1].strip("'\""))
            else:
                opened = re.match(r"(?:OPEN|CREATE|FILE|GOPEN):([^,]+)", word, re.IGNORECASE)
                if opened:
                    shell.touch(How.WRITE, opened[1], program="socat")
    if name in ("mail", "mailx", "mutt", "swaks", "sendmail"):
        for path in parsed.values("-a", "-A"):
            shell.touch(How.READ, path, program=name)
    if name in ("torsocks", "torify", "proxychains"):
        return shell.call(call.only(call.args)) if call.args else HOLE
    if name in ("youtube-dl", "yt-dlp", "gdown", "mail"):
        for path in parsed.values("-o", "-O"):
            catalog.use(shell, Use.WRITE, path, call)
    if name in ("youtube-dl", "yt-dlp") and parsed.has("--exec"):
        shell.run_text(parsed.value("--exec"))
    return NET


def _looping(shell: Shell, call: Call) -> bool:
    """Return whether a loop calls the program for one address or port after the other."""
    shell.facts.programs[" ".join((call.name, *call.args))] = None
    seen = sum(1 for program in shell.facts.programs if program.startswith(f"{call.name} "))
    open_ended = any(
        re.match(r"\d+\.\d+\.\d+\.", argument) and re.search("[\ue000-\ue004]", argument)
        for argument in call.args
    )
    return seen > MOST_SOCKETS or open_ended


def _secure(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    parsed = parse(
        call.args,
        (*entry.values, *(() if call.name != "scp" else ("-P",))),
        in_order=call.name != "scp",
    )
    for setting in parsed.values("-o"):
        key, value = (*re.split(r"\s*[=\s]\s*", setting, maxsplit=1), "")[:2]
        if key.lower() in ("proxycommand", "localcommand", "knownhostscommand", "remotecommand"):
            shell.find(Tier.DANGER, "runs-text", f"`ssh -o {shown(key)}` runs a program")
            shell.run_text(value)
        elif key.lower() in ("stricthostkeychecking", "userknownhostsfile") and value in (
            "no",
            "/dev/null",
            "off",
        ):
            shell.find(Tier.DANGER, "security", "it does not check whom it talks to")
    for path in parsed.values("-i", "-F", "-E"):
        shell.touch(How.READ, path, program=call.name)
    for text in parsed.values("-S") if call.name == "scp" else ():
        shell.run_text(text)
    if call.name == "scp":
        for path in parsed.operands[:-1]:
            if ":" not in path:
                shell.touch(How.READ, path, program="scp")
        if parsed.operands and ":" not in parsed.operands[-1]:
            target = parsed.operands[-1]
            shell.touch(How.WRITE, target, program="scp")
            for path in parsed.operands[:-1]:
                if ":" in path:
                    base = re.split(r"[/:]", path)[-1]
                    for arrived in (target, f"{target.rstrip('/')}/{base}"):
                        store(shell, arrived, NET)
        return NET
    if call.name == "sshpass":
        rest = parse(call.args, ("-p", "-f", "-P"), in_order=True).operands
        return shell.call(call.only(tuple(rest))) if rest else HOLE
    if len(parsed.operands) > 1 and call.name == "ssh":
        # What runs there is as forbidden there as here; only what it finds forbidden counts.
        remote = " ".join(parsed.operands[1:])
        shell.aside(lambda: shell.run_text(remote, call.stdin))
    elif call.stdin is not None and call.name == "ssh":
        shell.aside(lambda: shell.run_text(call.stdin or ""))
    return NET


READERS = {
    "download": _download,
    "remote": _remote,
}
