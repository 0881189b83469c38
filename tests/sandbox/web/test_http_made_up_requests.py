# SPDX-License-Identifier: Apache-2.0
"""Requests made from the OpenAPI document: none makes the server fail, and it keeps its word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sandbox.audit.events.reading import record_of
from sandbox.audit.store import Store
from sandbox.host.dirs import Dirs
from sandbox.web.openapi import document
from sandbox.web.resources import Resource
from sandbox.web.table import RESOURCES
from sandbox.workspaces.registry import Registry
from tests.fakes import served
from tests.http_served import HttpServed, http_served

EXAMPLES = 12
CALL = "c1"
FAILED = frozenset((500, 501, 502, 504))
"""What no request may come to; 503 says that this host lacks something."""
CONFORMS = [status_code_conformance, content_type_conformance, response_schema_conformance]
SOME = [one for one in RESOURCES if not one.streams]


@pytest.fixture(scope="module")
def http() -> Iterator[HttpServed]:
    with TemporaryDirectory(prefix="lg-") as folder:
        dirs = Dirs.under(Path(folder) / "l").create()
        (Path(folder) / "w").mkdir()
        Registry(dirs).add(Path(folder) / "w", approved=True)
        record = {"event": "decided", "call": CALL, "agent": "a", "tool": "Bash", "verdict": "ask"}
        Store(dirs).append(record_of({**record, "plan": {}}), durable=False)
        with served(dirs), http_served(dirs) as one:
            yield one


@pytest.mark.parametrize("resource", SOME, ids=lambda one: one.name)
def test_no_request_makes_the_server_fail(http: HttpServed, resource: Resource) -> None:
    schema = schemathesis.openapi.from_dict(document(RESOURCES))
    operation = schema[resource.path][resource.method]
    place = Registry(http.dirs).list()[0].path
    answers: list[int] = []

    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=operation.as_strategy(), real=st.booleans())
    def run(case: Any, real: bool) -> None:
        if real:  # else hardly any would name what there is
            if "call" in case.path_parameters:
                case.path_parameters["call"] = CALL
            for part in (case.body, case.query):
                if isinstance(part, dict) and "workspace" in part:
                    part["workspace"] = place
        head = {"Authorization": f"Bearer {http.token}"}
        answer = case.call(base_url=http.url, headers=head, timeout=60)
        assert answer.status_code not in FAILED, answer.text
        case.validate_response(answer, checks=CONFORMS)
        answers.append(answer.status_code)

    run()
    assert answers


def test_the_document_is_served_as_it_is_made(http: HttpServed) -> None:
    said = http.ask("GET", "/openapi.json").json()
    assert said == document(RESOURCES)
    ids = [each["operationId"] for path in said["paths"].values() for each in path.values()]
    assert len(ids) == len(set(ids)) == len(RESOURCES)
