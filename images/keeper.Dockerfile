# SPDX-License-Identifier: Apache-2.0
# The image of the keeper: python3, watchdog and the code that mounts, lists, lands and undoes. It never runs an agent's code.

ARG BASE
FROM ${BASE}

USER 0:0
WORKDIR /
ENTRYPOINT []
CMD []
HEALTHCHECK NONE

COPY prepare.sh /.lockgate/prepare.sh
RUN sh /.lockgate/prepare.sh keeper all

# watchdog is pure Python on Linux and is copied from the host's own installation.
COPY lib/ /opt/lockgate/
RUN sh /.lockgate/prepare.sh lib

COPY cell/ /cell/
RUN sh /.lockgate/prepare.sh code
