# SPDX-License-Identifier: Apache-2.0
"""The programs that the policy knows: the files of the catalog, with the readers that they name."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from policy.programs.catalog import Catalog
from policy.programs.catalog_schema import CatalogFile
from policy.programs.readers import READERS
from policy.values import strict_yaml


@lru_cache(maxsize=1)
def default() -> Catalog:
    """Return the catalog that comes with the package."""
    folder = resources.files("policy").joinpath("catalog")
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".yaml"))
    texts = ((name, folder.joinpath(name).read_text("utf-8")) for name in names)
    files = [
        strict_yaml.build(CatalogFile, strict_yaml.parse(text, name), name) for name, text in texts
    ]
    return Catalog(files, READERS)
