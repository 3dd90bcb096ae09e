#!/usr/bin/env bash
# bubblewrap, the sandbox in which programs that a model wrote are run (verifier `code`). Called by `make test`.
# Does nothing when bwrap is there, or when SCALERL_NO_SANDBOX is set: the tests of the sandbox are skipped then.
set -euo pipefail

if [ -n "${SCALERL_NO_SANDBOX:-}" ]; then
    echo "SCALERL_NO_SANDBOX is set: the tests of the sandbox will be skipped"
    exit 0
fi
if [ "$(uname -s)" != Linux ]; then
    echo "bubblewrap needs Linux: the tests of the sandbox will be skipped, and the verifier \`code\` refuses to start"
    exit 0
fi

by_hand() {
    echo "$1" >&2
    echo "Install bubblewrap by hand (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap), or leave" >&2
    echo "the tests of the sandbox out with SCALERL_NO_SANDBOX=1." >&2
    exit 1
}

if ! command -v bwrap > /dev/null; then
    command -v apt-get > /dev/null || by_hand "There is no bwrap here, and no apt-get to install it with."
    if [ "$(id -u)" = 0 ]; then
        root=()
    elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
        root=(sudo)
    else
        by_hand "There is no bwrap here, and installing it needs root."
    fi
    echo "installing bubblewrap (apt-get install bubblewrap)"
    "${root[@]}" apt-get update -qq || by_hand "apt-get update failed."
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends bubblewrap > /dev/null \
        || by_hand "apt-get install bubblewrap failed."
fi

# Installed is not allowed: containers and some kernels forbid user namespaces. The tests are skipped then, with the reason.
if ! reason=$(bwrap --unshare-user --unshare-net --unshare-pid --ro-bind / / true 2>&1); then
    echo "bwrap is installed and does not work here: ${reason}"
    echo "In a container: run it with --security-opt seccomp=unconfined (docker, podman), or allow user namespaces."
    echo "Ubuntu 24.04: an AppArmor profile for bwrap, or sysctl kernel.apparmor_restrict_unprivileged_userns=0."
fi
