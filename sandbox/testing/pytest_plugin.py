# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: gives integration tests a disposable cell. Imports nothing until used.

See docs/testing.md. `@pytest.mark.lockgate(...)` holds the options of one test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.testing.cell import LockgateCell

MARKER = (
    "lockgate(workspace=None, image=None, runtime=None, fresh=False, approve=True, network=None): "
    "options of the fixture `lockgate_cell`"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--lockgate-skip`."""
    parser.getgroup("lockgate").addoption(
        "--lockgate-skip",
        action="store_true",
        help="skip tests that need a Lockgate cell where none can be had (default: they fail)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def lockgate_cell(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LockgateCell]:
    """Return a cell for this test alone, over a temporary workspace; it is always removed."""
    from sandbox.errors import SandboxError
    from sandbox.testing.cell import LockgateCell, Options

    marker = request.node.get_closest_marker("lockgate")
    try:
        options = Options.of(marker.args if marker else (), marker.kwargs if marker else {})
        root = tmp_path_factory.mktemp("lockgate")
        cell = LockgateCell(options, project=request.config.rootpath, root=root)
    except ValueError as error:
        pytest.fail(f"lockgate: {error}", pytrace=False)
    try:
        cell.start()
    except SandboxError as error:
        if request.config.getoption("--lockgate-skip"):
            pytest.skip(f"lockgate: {error}")
        pytest.fail(f"lockgate: {error} (`--lockgate-skip` skips such tests)", pytrace=False)
    try:
        yield cell
    finally:
        cell.close()
