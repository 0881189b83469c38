# SPDX-License-Identifier: Apache-2.0
"""Print all checks of this host: `python -m sandbox.doctor [--json]`."""

import sys

from sandbox.doctor.diagnose import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
