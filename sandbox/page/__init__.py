# SPDX-License-Identifier: Apache-2.0
"""The page for people: the resources of the HTTP API, shown in a browser.

It decides nothing and knows nothing of its own: every view and every button is an entry of the
table of resources, asked for in the name of whoever's process the browser is.
"""

__all__ = ["links", "pages"]
