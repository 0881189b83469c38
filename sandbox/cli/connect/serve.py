# SPDX-License-Identifier: Apache-2.0
"""`serve`: the HTTP API, on a socket of this user or on loopback."""

from __future__ import annotations

import click

from sandbox.cli import terminal


@click.command(short_help="Serve the HTTP API.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve on this port of loopback too; 0: any that is free.",
)
@click.option(
    "--new-token", is_flag=True, help="Show a new token in place of the old one, and end."
)
def serve(port: int | None, *, new_token: bool) -> int:
    """Serve the HTTP API (calls, approvals, held changes, the record, events) on the socket
    `http.sock` in the runtime folder, and with --port on loopback. `/openapi.json` describes it.

    Over loopback every request bears a token, and what a person decides needs it on the socket
    too. It is shown once, at a terminal, and kept nowhere.

    \b
    Examples:
      lockgate serve
      lockgate serve --port 8643
      lockgate serve --new-token
    """
    import asyncio

    from sandbox.page.pages import page_application
    from sandbox.web import tokens
    from sandbox.web.serving import serve_http

    terminal.only_a_person("serving the HTTP API")
    dirs = terminal.dirs().create()
    if new_token or not tokens.token_digest(dirs).exists():
        if not terminal.person_present():
            terminal.say(
                "the token is shown at a terminal: type `lockgate serve --new-token` there"
            )
            if new_token:
                return terminal.NOT_PERMITTED
        else:
            made = tokens.new_token(dirs)
            terminal.say("this token is shown once; give it to your programs, and to no agent")
            terminal.show(made)
            if new_token:
                return 0
    asyncio.run(serve_http(dirs, port=port, say=terminal.say, page=page_application))
    return 0
