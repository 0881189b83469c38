# SPDX-License-Identifier: Apache-2.0
# The cell's image with the packages of a kit. Built by `lockgate image build --for NAME` (see README.md beside this file).

ARG BASE
FROM ${BASE}

ARG PACKAGES
ARG PROGRAMS
COPY prepare.sh /.lockgate/prepare.sh
# What packages of Java install fails where the folder of manual pages was left out of the base.
RUN mkdir -p /usr/share/man/man1 && sh /.lockgate/prepare.sh kit "${PACKAGES}" "${PROGRAMS}"
