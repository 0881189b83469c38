# SPDX-License-Identifier: Apache-2.0
"""What arguments and variables name beside a program's own operands: files to read, files to write,
commands to start. For whatever no list of the catalog holds."""
