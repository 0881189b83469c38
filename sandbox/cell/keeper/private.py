# SPDX-License-Identifier: Apache-2.0
"""Private layers: mounted so that nothing waits for the disk, and on disk before they are held.

INVARIANT (P11, held): a layer is mounted `volatile`, so after a crash of the machine nobody knows
what of it reached the disk. It is thrown away then: only what `keep` moved to the held ones is ever
looked at again, and that is on disk before it gets there.

Runs in the keeper: standard library only, Python 3.9.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping

from .. import fs, mounts
from ..journal import removal

OPTIONS = {"redirect_dir": "on", "xino": "off", "index": "off", "metacopy": "off"}
VOLATILE = "volatile"
"""Linux 5.10 and later: neither detaching, copying up nor a command's fsync writes to the disk."""


class LayerMounts:
    """Mounts overlays with a private layer; finds out whether the kernel knows `volatile`."""

    def __init__(self) -> None:
        self._flags: tuple[str, ...] = (VOLATILE,)

    def mount(self, lower: str, upper: str, work: str, attributes: int) -> int:
        """Return the descriptor of a new detached mount. `upper` and `work` are new folders: one
        that was mounted so before is refused by the kernel. Raises OSError."""
        options = {"lowerdir": lower, "upperdir": upper, "workdir": work, **OPTIONS}
        try:
            return mounts.overlay(options, attributes, self._flags)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._flags:
                raise
        mount = mounts.overlay(options, attributes)
        self._flags = ()  # an older kernel: it syncs by itself whatever is detached
        return mount


def keep(
    layers: Mapping[int, str],
    since: Mapping[int, int],
    hold: str,
    held: str,
    fault: Callable[[str], None],
) -> None:
    """Move the layers of one call, by workspace, to the folder `held`, by way of the folder `hold`.

    They are on disk when this returns; whole, or after a crash not at all. Raises OSError, then
    they can only be thrown away.
    """
    removal.remove(*os.path.split(hold))  # what one that failed has left
    os.mkdir(hold, 0o700)
    for index, when in since.items():
        with open(f"{hold}/{index}.since", "w") as file:
            file.write(str(when))
    for index, layer in layers.items():
        os.rename(layer, f"{hold}/{index}")
    _on_disk(hold, fs.sync_all)
    fault("kept")
    os.rename(hold, held)
    _on_disk(os.path.dirname(held), os.fsync)


def _on_disk(folder: str, sync: Callable[[int], None]) -> None:
    descriptor = fs.open_directory(folder)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)
