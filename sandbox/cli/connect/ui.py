# SPDX-License-Identifier: Apache-2.0
"""`ui`: the page for people, opened by a link that is printed here."""

from __future__ import annotations

import click

from sandbox.cli import terminal
from sandbox.errors import BadInput


@click.command(short_help="Open the page: what runs, what waits, what was done.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Serve it at this port of loopback; default: any that is free.",
)
def ui(port: int) -> int:
    """Print a link to the page: see what runs, answer questions, look at what was done and undo it,
    stop everything. Open it in a browser on this host; it works once, for five minutes.

    The page is served by this command until Ctrl-C, beside the HTTP API, or by the `lockgate serve
    --port` that runs already.

    \b
    Examples:
      lockgate ui
      lockgate ui --port 8643
    """
    import asyncio

    from sandbox.page.links import new_link
    from sandbox.page.pages import page_application
    from sandbox.web.serving import is_served, serve_http, served_port

    terminal.require_person("opening the page")
    dirs = terminal.dirs().create()

    def ready(bound: int) -> None:
        terminal.say("open this link in a browser; it works once, for five minutes")
        terminal.show(new_link(dirs, bound))
        terminal.say("`lockgate ui` in another terminal prints a new one; Ctrl-C ends the page")

    if is_served(dirs):
        running = served_port(dirs)
        if running is None:
            raise BadInput(
                "the `lockgate serve` that runs serves its socket alone; end it, or start it "
                "with `--port`"
            )
        terminal.say("open this link in a browser; it works once, for five minutes")
        terminal.show(new_link(dirs, running))
        return 0
    asyncio.run(serve_http(dirs, port=port, say=lambda _: None, page=page_application, ready=ready))
    return 0
