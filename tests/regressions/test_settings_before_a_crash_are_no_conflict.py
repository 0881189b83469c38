# SPDX-License-Identifier: Apache-2.0
"""A landing that crashed after it had set a mode in place found, on recovery, that the file was no
longer as listed (its ctime had changed by our own hand), and took only half of the landing back."""

from __future__ import annotations

import pytest

from sandbox.cell.landing import land as landing
from tests.conftest import cannot_run
from tests.sandbox.overlays import Overlay, missing


class Crash(BaseException):
    """Stands for the end of the process: nothing may clean up after it."""


def test_recovery_finishes_a_landing_whose_settings_were_half_made() -> None:
    if reason := missing():
        cannot_run(reason)
    with Overlay(prepare="echo a >a; echo b >b; echo c >c") as overlay:
        overlay.call("echo x >>a; chmod 600 b c")
        seen = overlay.seen()
        walked = overlay.walk()

        def fault(step: str) -> None:
            if step == "do 2":  # the content is exchanged and one mode set
                raise Crash

        with pytest.raises(Crash):
            overlay.land(walked, fault=fault)
        assert overlay.real() != seen
        [recovered] = landing.recover(str(overlay.lower))
        assert (recovered["state"], recovered["call"]) == ("landed", "c1")
        assert overlay.real() == seen
