# SPDX-License-Identifier: Apache-2.0
"""What a supervisor can be asked for: each request with its fields, its result, and who may.

The one table of operations, `requests`: clients, server, `Supervisor` and its twin without `async`
get their methods from it, so that a new operation is an entry here and a handler
(`sandbox/calls/handlers`, or `sandbox/server/connection` where it is about the process). A tool
call is no entry: it is a conversation (output, input, questions), see `call` of each client. Cheap
to import: what is typed by pydantic is imported when a result is read.
"""

__all__ = ["methods", "reading", "requests"]
