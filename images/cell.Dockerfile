# SPDX-License-Identifier: Apache-2.0
# The image in which an agent's commands run. Built by `lockgate image build` (see README.md beside this file).

ARG BASE
FROM ${BASE}

# Whatever the base was made for, here it is a plain file system with programs.
USER 0:0
WORKDIR /
ENTRYPOINT []
CMD []
HEALTHCHECK NONE

# all: every tool must be there, or the build fails.  available: take what can be had; bash and python3 are a must.
ARG TOOLS=all
COPY prepare.sh /.lockgate/prepare.sh
RUN sh /.lockgate/prepare.sh cell "${TOOLS}"

# The code comes last, so that a change of it builds in seconds.
COPY cell/ /cell/
RUN sh /.lockgate/prepare.sh code
