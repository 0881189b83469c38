#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs while an image is built: installs what is missing, then takes away what no cell should have.
#   prepare.sh cell all|available    prepare.sh keeper all    prepare.sh lib    prepare.sh code
#   prepare.sh kit "PACKAGES" "PROGRAMS"
# Plain POSIX shell, because the base may be Debian (dash) or Alpine (busybox).
set -eu

say() { echo "lockgate: $*"; }
fail() { say "error: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
imports() { have python3 && python3 -I -c "import $1" >/dev/null 2>&1; }

# One line per tool: how to see that it is there | package on Debian | package on Alpine
cell_tools() {
    cat <<'TOOLS'
have bash|bash|bash
have python3|python3|python3
have env|coreutils|coreutils
have find|findutils|findutils
have diff|diffutils|diffutils
have tar|tar|tar
have xz|xz-utils|xz
have git|git|git
imports pip|python3-pip|py3-pip
imports venv,ensurepip|python3-venv|python3
imports pytest|python3-pytest|py3-pytest
have node|nodejs|nodejs
have npm|npm|npm
have rg|ripgrep|ripgrep
have jq|jq|jq
have make|make|make
have gcc|gcc|gcc
test -e /usr/include/stdio.h|libc6-dev|musl-dev
have patch|patch|patch
have curl|curl|curl
test -e /etc/ssl/certs/ca-certificates.crt|ca-certificates|ca-certificates
have unzip|unzip|unzip
have less|less|less
have ps|procps|procps
have file|file|file
have tree|tree|tree
have lsof|lsof|lsof
TOOLS
}

keeper_tools() { echo 'have python3|python3|python3'; }

# The packages (column $2) whose test fails, for the list that the function $1 prints.
missing() {
    "$1" | while IFS='|' read -r check debian alpine; do
        $check || case $2 in debian) echo "$debian" ;; *) echo "$alpine" ;; esac
    done | tr '\n' ' '
}

install_debian() {
    # The image is thrown away if the build dies, so dpkg need not wait for the disk.
    mkdir -p /etc/dpkg/dpkg.cfg.d
    echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/lockgate-unsafe-io
    export DEBIAN_FRONTEND=noninteractive
    # A network that swallows packets must not hold the build for long.
    patience='-o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15'
    # shellcheck disable=SC2086  # lists of words
    apt-get $patience update && apt-get $patience install -y --no-install-recommends $1
    result=$?
    apt-get clean || true
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/* \
        /etc/dpkg/dpkg.cfg.d/lockgate-unsafe-io
    return $result
}

install_alpine() {
    # shellcheck disable=SC2086
    apk add --no-cache $1
}

provide() { # $1: the list, $2: all or available
    if have apt-get; then family=debian; elif have apk; then family=alpine; else family=other; fi
    wanted=$(missing "$1" $family)
    if [ -n "$wanted" ] && [ $family != other ]; then
        say "installing $wanted"
        # `|| code` keeps `set -e` out of the function; a failure matters only if something is missing afterwards.
        if [ $family = debian ]; then install_debian "$wanted"; else install_alpine "$wanted"; fi || say "not everything could be installed"
    fi
    have python3 || fail "python3 is missing and could not be installed: use an image that has python3 >= 3.9"
    if [ "$1" = cell_tools ]; then
        have bash || fail "bash is missing and could not be installed: use an image that has bash"
    fi
    python3 -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' ||
        fail "$(python3 --version 2>&1) is too old: use an image that has python3 >= 3.9"
    wanted=$(missing "$1" $family)
    if [ -n "$wanted" ]; then
        [ "$2" = available ] || fail "could not be installed: $wanted"
        say "without: $wanted"
    fi
}

# Names for the user ids that a cell may run as: whoami, npm and Python's getpass want one.
name_users() {
    for id in $(seq 501 510) $(seq 1000 1060) 10000; do
        name=agent$id
        [ "$id" = 10000 ] && name=agent
        grep -q "^[^:]*:[^:]*:[^:]*:$id:" /etc/group || echo "$name:x:$id:" >>/etc/group
        grep -q "^[^:]*:[^:]*:$id:" /etc/passwd ||
            echo "$name:x:$id:$id:Lockgate cell:/home/agent:/bin/bash" >>/etc/passwd
    done
}

configure_tools() {
    # The owner of files is arranged by Lockgate; a process that outlives its command is ended, so git must not leave one behind.
    # Gate 2 holds a commit graph, which git believes unread, so that the housekeeping of a commit or merge must not write one.
    cat >/etc/gitconfig <<'CONFIG'
[safe]
	directory = *
[init]
	defaultBranch = main
[gc]
	autoDetach = false
	writeCommitGraph = false
[maintenance]
	autoDetach = false
CONFIG
    # The name that people and agents type.
    have python || ln -s "$(command -v python3)" /usr/local/bin/python
    # A cell is thrown away, so pip may install beside the system's own packages (into the home, with the right to a network).
    find / -xdev -name EXTERNALLY-MANAGED -path '*/python3*' -exec rm -f {} +
}

harden() {
    # Rights that a file would lend to whoever runs it.
    find / -xdev ! -type l -perm /6000 -exec chmod a-s {} +
    # Places where anybody may write, but for /tmp, which is a private tmpfs in every cell.
    find / -xdev ! -type l -perm -0002 ! -path /tmp ! -path '/dev/*' ! -path '/proc/*' ! -path '/sys/*' -exec chmod o-w {} +
    # Secrets that a base may hold: keys of a host, and passwords in the address of a package mirror.
    rm -f /etc/ssh/ssh_host_* /etc/ssl/private/* /etc/.pwd.lock /etc/passwd- /etc/shadow- /etc/group- /etc/gshadow-
    rm -rf /etc/apt/auth.conf /etc/apt/auth.conf.d
    grep -rlE '://[^/ ]+@' /etc/apt /etc/apk 2>/dev/null | while read -r file; do rm -f "$file"; done
    if [ -e /etc/machine-id ]; then : >/etc/machine-id; fi
    rm -rf /root /home/agent && mkdir -m 0755 -p /root /home/agent
}

case $1 in
cell)
    provide cell_tools "$2"
    name_users
    configure_tools
    harden
    ;;
keeper)
    provide keeper_tools "$2"
    harden
    ;;
kit)
    if ! install_debian "$2"; then say "not everything could be installed"; fi
    for program in $3; do
        have "$program" || fail "could not be installed: $program"
    done
    harden
    rm -rf /.lockgate
    ;;
lib)
    python3 -m compileall -q --invalidation-mode unchecked-hash /opt/lockgate
    chmod -R a=rX /opt/lockgate
    # Seen by `python3 -I` too, which leaves PYTHONPATH aside.
    python3 -I -c 'import pathlib, site; p = pathlib.Path(site.getsitepackages()[0]); p.mkdir(parents=True, exist_ok=True); (p / "lockgate.pth").write_text("/opt/lockgate\n")'
    ;;
code)
    python3 -m compileall -q --invalidation-mode unchecked-hash /cell
    chmod -R a=rX /cell
    # Codex types its way of editing as a command.
    printf '#!/bin/sh\nexec python3 -I /cell/run/apply_patch.py "$@"\n' >/usr/local/bin/apply_patch
    chmod 0755 /usr/local/bin/apply_patch
    rm -rf /.lockgate
    ;;
*)
    fail "unknown step: $1"
    ;;
esac
