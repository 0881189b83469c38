# SPDX-License-Identifier: Apache-2.0
"""Media and image tools: their operands carry formats, protocols and scripts."""

from __future__ import annotations

import re

from policy.facts import How
from policy.model import Tier
from policy.programs import output_options as outputs
from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import Programs, Use
from policy.shell.interpreter import Shell
from policy.shell.state import Call
from policy.values.argv import parse
from policy.values.partial import HOLE

_PROTOCOL = re.compile(
    r"^(?:rtmps?|rtsp|https?|tcp|udp|srt|ftp|sftp|icecast|tls|rtp|hls|mmsh?|gopher)(?::|\+)//?|^(?:tcp|udp):"
)
_LOCAL = re.compile(r"^(?:file|concat|subfile|crypto|async|cache|tee|pipe|fd|data|md5):")
_FFMPEG = frozenset(
    ("-f", "-c", "-vf", "-af", "-r", "-s", "-b", "-t", "-ss", "-to", "-map", "-filter_complex",
     "-codec", "-preset", "-crf", "-vcodec", "-acodec", "-ar", "-ac", "-b:v", "-b:a", "-c:v",
     "-c:a", "-c:s", "-pix_fmt", "-loglevel", "-v", "-frames:v", "-vframes", "-q:v", "-q:a",
     "-qscale", "-g", "-metadata", "-movflags", "-aspect", "-filter", "-lavfi", "-threads",
     "-loop", "-stream_loop", "-show_entries", "-of", "-print_format", "-select_streams",
     "-framerate", "-start_number", "-vol")
)  # fmt: skip
_READS = re.compile(
    r"(?:movie|amovie|subtitles|ass|textfile|filename|lut3d|fontfile)\s*=\s*'?([^':,;\]]+)"
)
_IMAGE_SCRIPTS = re.compile(
    r"^(?:msl|mvg|mpr|ephemeral|plasma-run|x|win|show|ftp|https?|url):|^\|", re.IGNORECASE
)
_FORMAT = re.compile(r"^(?!/)([A-Za-z0-9-]{2,12}):(.+)$")
_IMAGE_WRITES = frozenset(("-write", "+write", "-path", "-log", "-report"))
_IMAGE_VALUES = frozenset(
    ("-resize", "-quality", "-crop", "-rotate", "-density", "-depth", "-geometry", "-gravity",
     "-background", "-fill", "-font", "-pointsize", "-annotate", "-draw", "-blur", "-format",
     "-define", "-colorspace", "-extent", "-size", "-compress", "-delay", "-loop", "-alpha",
     "-thumbnail", "-scale", "-sharpen", "-threshold", "-level", "-fuzz", "-transparent",
     "-channel", "-set", "-tile", "-border", "-bordercolor", "-type", "-interlace",
     "-sampling-factor", "-metric", "-limit", "-layers", "-dispose")
)  # fmt: skip


def _media(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = call.name not in ("ffprobe", "ffplay")
    words = list(call.args)
    inputs, outputs = [], []
    at = 0
    while at < len(words):
        word = words[at]
        following = words[at + 1] if at + 1 < len(words) else ""
        if word in (
            "-i",
            "-attach",
            "-filter_script",
            "-filter_complex_script",
            "-/filter_complex",
        ):
            inputs.append(following)
            at += 1
        elif word in (
            "-progress",
            "-report",
            "-passlogfile",
            "-vstats_file",
            "-dump_attachment",
            "-sdp_file",
        ):
            outputs.append(following)
            at += 1
        elif word in _FFMPEG or re.match(
            r"-(?:c|b|q|filter|metadata|map|codec|frames|disposition):", word
        ):
            for match in _READS.finditer(following):
                inputs.append(match[1])
            at += 1
        elif not word.startswith("-") or "/" in word:
            (inputs if call.name in ("ffprobe", "ffplay") else outputs).append(word)
        at += 1
    for path in inputs:
        _operand(catalog, shell, call, Use.READ, path)
    for path in outputs:
        _operand(
            catalog,
            shell,
            call,
            Use.WRITE if call.name != "sox" or path == outputs[-1] else Use.READ,
            path,
        )
    return HOLE


def _operand(catalog: Catalog, shell: Shell, call: Call, use: Use, path: str) -> None:
    if _PROTOCOL.match(path):
        shell.facts.network = True
        shell.find(Tier.DANGER, "network", f"`{call.name}` talks to other machines")
        return
    for part in re.split(r"\|", _LOCAL.sub("", path)):
        catalog.use(shell, use, re.sub(r"^\[[^\]]*\]", "", part), call)


def _image(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    words = [argument for argument in call.args if argument not in ("(", ")")]
    if (
        call.name in ("magick", "gm")
        and words[:1]
        and words[0]
        in (
            "convert",
            "mogrify",
            "identify",
            "composite",
            "montage",
            "compare",
            "conjure",
            "import",
            "display",
            "animate",
            "stream",
        )
    ):
        return shell.call(Call(tuple(words), call.stdin, call.env, plain=False))
    if call.name == "conjure" or "-script" in words:
        shell.find(Tier.DANGER, "script", f"`{call.name}` runs a script")
    if call.name in ("inkscape", "exiftool", "rsvg-convert", "cwebp", "dwebp", "optipng"):
        outputs.record(catalog, shell, call)
        for path in parse(words, ("-o", "-out", "--export-filename")).values("-o", "-out"):
            catalog.use(shell, Use.WRITE, path, call)
    operands: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word in _IMAGE_WRITES and at + 1 < len(words):
            catalog.use(shell, Use.WRITE, _plain(words[at + 1]), call)
            at += 1
        elif word in _IMAGE_VALUES:
            if at + 1 < len(words) and words[at + 1].startswith("@"):
                shell.touch(How.READ, words[at + 1][1:])
            at += 1
        elif not re.match(r"[-+]\w", word):
            operands.append(word)
        at += 1
    writer = call.name not in ("identify", "display", "animate", "import")
    for at, word in enumerate(operands):
        if _IMAGE_SCRIPTS.match(word):
            shell.find(
                Tier.DANGER,
                "script",
                f"the prefix of `{word}` runs a script, deletes its input or opens a connection",
            )
        path = _plain(word)
        if "@" in word.split(":", 1)[-1][:1]:
            path = word.split("@", 1)[1]
        if path in ("", "null:", "-", "info:"):
            continue
        last = at == len(operands) - 1 and writer and (at > 0 or call.name == "mogrify")
        shell_use = (
            Use.WRITE if last or call.name in ("mogrify", "optipng", "jpegoptim") else Use.READ
        )
        catalog.use(shell, shell_use, path, call)
    return HOLE


def _plain(word: str) -> str:
    found = _FORMAT.match(word)
    return found[2] if found else word


_LAST = frozenset(
    (
        "qpdf",
        "wkhtmltopdf",
        "ps2pdf",
        "wkhtmltoimage",
        "ebook-convert",
        "pdfunite",
        "pdfseparate",
        "sass",
        "lessc",
    )
)


def _converter(catalog: Catalog, shell: Shell, call: Call, entry: Programs) -> str:
    """Converters that write their last operand, or what an option names, or edit in place."""
    shell.find(entry.tier, entry.rule, f"`{call.name}`: {entry.because}")
    shell.facts.writes = True
    outputs.record(catalog, shell, call, in_place=True)
    parsed = parse(call.args, ("-o", "-O", "-f", "--set"))
    for path in parsed.values("-o", "-O"):
        catalog.use(shell, Use.WRITE, path, call)
    edits = parsed.has("-i", "-I", "--set", "--in-place") or "put" in parsed.operands[:1]
    for path in (*parsed.operands, *parsed.values("-f"), *parsed.values("--set")):
        if "/" in path or "." in path:
            catalog.use(shell, Use.WRITE if edits else Use.READ, path, call)
    if call.name in _LAST and len(parsed.operands) > 1:
        catalog.use(shell, Use.WRITE, parsed.operands[-1], call)
    return HOLE


READERS = {"converter": _converter, "media": _media, "image": _image}
