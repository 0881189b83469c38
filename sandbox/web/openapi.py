# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document, made from the table of resources and its models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter

from sandbox.host.version import VERSION
from sandbox.operations.requests import May
from sandbox.web.problems import STATUSES, Problem
from sandbox.web.resources import NAME, Resource

_REF = "#/components/schemas/{model}"
_WHO = {
    May.ANYBODY: "Anybody may ask.",
    May.ITS_OWN: "A person may ask; an agent about its own calls and those of agents below it.",
    May.PERSON: "Only a person may ask, with the token.",
}


def document(resources: Iterable[Resource]) -> dict[str, Any]:
    """Return the document as JSON has it."""
    some = tuple(resources)
    inputs: list[tuple[Any, Any, TypeAdapter[Any]]] = [
        ((resource.name, what), "validation", TypeAdapter(model))
        for resource in some
        for what, model in (("body", resource.body), ("query", resource.query))
        if model is not None
    ]
    answers: list[tuple[Any, Any, TypeAdapter[Any]]] = [
        ((resource.name, "answer"), "serialization", TypeAdapter(resource.answer))
        for resource in some
        if resource.answer is not None
    ]
    problem: tuple[Any, Any, TypeAdapter[Any]] = (
        ("", "problem"), "serialization", TypeAdapter(Problem),
    )  # fmt: skip
    made, defined = TypeAdapter.json_schemas([*inputs, *answers, problem], ref_template=_REF)
    schemas = {key: schema for (key, _), schema in made.items()}
    paths: dict[str, dict[str, Any]] = {}
    for resource in some:
        paths.setdefault(resource.path, {})[resource.method.lower()] = _operation(
            resource, schemas, defined
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lockgate",
            "version": VERSION,
            "description": "What agents did and want to do, and what a person says to it.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": defined.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(
    resource: Resource, schemas: dict[Any, dict[str, Any]], defined: dict[str, Any]
) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": resource.name,
        "summary": resource.summary,
        "description": _WHO[resource.may],
        "parameters": [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": f"^{NAME}$"},
            }
            for name in re.findall(r"{(\w+)}", resource.path)
        ],
        "responses": _responses(resource, schemas),
    }
    if resource.query is not None:
        said["parameters"] += _query(schemas[resource.name, "query"], defined)
    if resource.body is not None:
        content = {"application/json": {"schema": schemas[resource.name, "body"]}}
        needed = any(each.is_required() for each in resource.body.model_fields.values())
        said["requestBody"] = {"required": needed, "content": content}
    return said


def _query(schema: dict[str, Any], defined: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in schema:
        schema = defined["$defs"][schema["$ref"].rpartition("/")[2]]
    needed = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in needed, "schema": _without_null(each)}
        for name, each in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter: what is null in JSON is left out of an address."""
    some = [resource for resource in schema.get("anyOf", ()) if resource != {"type": "null"}]
    if not some:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return {**rest, **some[0]} if len(some) == 1 else {**rest, "anyOf": some}


def _responses(resource: Resource, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    problem = {"application/json": {"schema": schemas["", "problem"]}}
    refusals = {
        str(status): {"description": why, "content": problem} for status, why in STATUSES.items()
    }
    if resource.streams:
        good = {"200": {"description": "events", "content": {"text/event-stream": {}}}}
    elif resource.answer is None:
        good = {"204": {"description": "done"}}
    else:
        content = {"application/json": {"schema": schemas[resource.name, "answer"]}}
        good = {"200": {"description": "what was asked for", "content": content}}
    return {**good, **refusals}
