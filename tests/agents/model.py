# SPDX-License-Identifier: Apache-2.0
"""A model on loopback that plays a list of tool calls, in the words of three vendors' interfaces.

It says one call after another, each when the result of the one before has come, and then `done`.
What the agent sent back for each call is kept in `results`.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call that the model makes."""

    tool: str
    params: Mapping[str, Any] | str
    """Its parameters; a text for a tool that takes free text."""
    server: str = ""
    """The MCP server it belongs to, where the interface says so beside the name."""


@dataclass
class Model:
    """A running model. Use it as a context manager."""

    steps: Sequence[Step]
    results: list[str] = field(default_factory=list)
    """What came back for each call, as the model sees it."""
    tools: set[str] = field(default_factory=set)
    """Every tool that was offered to it."""

    def __enter__(self) -> Model:
        model = self

        class Handler(_Handler):
            played = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next(self, results: Sequence[str]) -> Step | None:
        """Return the call that follows these results; None: nothing is left to do."""
        self.results[:] = results if len(results) >= len(self.results) else self.results
        return self.steps[len(results)] if len(results) < len(self.steps) else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    played: Model

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        self._answer({"data": [], "models": []})

    def do_HEAD(self) -> None:
        self._send(b"", "text/plain")

    def do_POST(self) -> None:
        said = self._body()
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            self._messages(said)
        elif path.endswith("/count_tokens"):
            self._answer({"input_tokens": 1})
        elif path.endswith("/responses"):
            self._responses(said)
        elif "enerateContent" in path:
            self._contents(said, stream="stream" in path)
        else:
            self._answer({})

    # -- Anthropic

    def _messages(self, said: Mapping[str, Any]) -> None:
        results = [
            _text(part.get("content"))
            for message in said.get("messages", ())
            if message["role"] == "user" and isinstance(message["content"], list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        offered = said.get("tools") or []
        self.played.tools.update(one.get("name", "") for one in offered)
        step = self.played.next(results) if offered else None
        number = len(results)
        if step is None:
            block: dict[str, Any] = {"type": "text", "text": ""}
            piece: dict[str, Any] = {"type": "text_delta", "text": "done"}
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": step.tool, "input": {}}
            piece = {"type": "input_json_delta", "partial_json": json.dumps(step.params)}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant",
                   "model": said.get("model"), "content": [], "stop_reason": None,
                   "stop_sequence": None, "usage": usage}  # fmt: skip
        reason = "end_turn" if step is None else "tool_use"
        if not said.get("stream"):
            whole = {**block, **({"text": "done"} if step is None else {"input": step.params})}
            self._answer({**message, "content": [whole], "stop_reason": reason})
            return
        delta = {"stop_reason": reason, "stop_sequence": None}
        self._stream(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": piece},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        )

    # -- OpenAI

    def _responses(self, said: Mapping[str, Any]) -> None:
        given = [one for one in said.get("input", ()) if isinstance(one, dict)]
        ends = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
        results = [_text(one.get("output")) for one in given if one.get("type") in ends]
        self.played.tools.update(_names(said.get("tools") or ()))
        step = self.played.next(results)
        number = len(results)
        item: dict[str, Any]
        if step is None:
            content = [{"type": "output_text", "text": "done", "annotations": []}]
            item = {"type": "message", "id": "msg", "role": "assistant", "content": content}
        elif isinstance(step.params, str):
            item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"call_{number}",
                    "name": step.tool, "input": step.params}  # fmt: skip
        else:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}",
                    "name": step.tool, "arguments": json.dumps(step.params)}  # fmt: skip
            if step.server:
                item["namespace"] = f"mcp__{step.server}"
        item["status"] = "completed"
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        whole = {"id": f"resp_{number}", "output": [item], "usage": usage}
        self._stream(
            {"type": "response.created", "response": {"id": f"resp_{number}"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )

    # -- Google

    def _contents(self, said: Mapping[str, Any], *, stream: bool) -> None:
        results = [
            json.dumps(part["functionResponse"].get("response"))
            for content in said.get("contents", ())
            for part in content.get("parts", ())
            if "functionResponse" in part
        ]
        offered = [
            one.get("name", "")
            for group in said.get("tools") or ()
            for one in group.get("functionDeclarations") or ()
        ]
        self.played.tools.update(offered)
        step = self.played.next(results) if offered else None
        part: dict[str, Any] = {"text": "done"}
        if step is not None:
            part = {"functionCall": {"name": step.tool, "args": step.params}}
        elif not offered:  # a side question of the agent's own
            part = {"text": '{"reasoning": "x", "next_speaker": "user", "model_choice": "flash"}'}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        content = {"role": "model", "parts": [part]}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": usage}
        if stream:
            self._send(f"data: {json.dumps(answer)}\n\n".encode(), "text/event-stream")
        else:
            self._answer(answer)

    # -- parts

    def _body(self) -> Any:
        length = self.headers.get("content-length")
        data = self.rfile.read(int(length)) if length else b"".join(self._chunks())
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        try:
            return json.loads(data) if data else {}
        except ValueError:
            return {}

    def _chunks(self) -> Iterator[bytes]:
        if "chunked" not in (self.headers.get("transfer-encoding") or ""):
            return
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _stream(self, *events: Mapping[str, Any]) -> None:
        lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
        self._send("".join(lines).encode(), "text/event-stream")

    def _answer(self, said: Any) -> None:
        self._send(json.dumps(said).encode(), "application/json")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(one) for one in value)
    if isinstance(value, Mapping):
        return str(value.get("text") or value.get("output") or json.dumps(value))
    return "" if value is None else str(value)


def _names(tools: Sequence[Any]) -> Iterator[str]:
    for one in tools:
        yield str(one.get("name") or one.get("type"))
        yield from _names(one.get("tools") or ())
