#!/usr/bin/env bash
# Debian's chromium for the browser tests and the screenshots; Playwright drives it and downloads no browser of its own.
# Does nothing when a chromium is there, or when SCALERL_NO_BROWSER is set. Called by `make test` and `make screenshots`.
set -euo pipefail

if [ -n "${SCALERL_NO_BROWSER:-}" ]; then
    echo "SCALERL_NO_BROWSER is set: the browser tests will be skipped"
    exit 0
fi
if [ -n "${SCALERL_CHROMIUM:-}" ] || command -v chromium > /dev/null || command -v chromium-browser > /dev/null; then
    exit 0
fi

by_hand() {
    echo "$1" >&2
    echo "Install chromium by hand (Debian, Ubuntu: apt-get install chromium; elsewhere: any Chromium or Chrome, named by" >&2
    echo "SCALERL_CHROMIUM=/path/to/it), or leave the browser tests out with SCALERL_NO_BROWSER=1." >&2
    exit 1
}

command -v apt-get > /dev/null || by_hand "There is no chromium here, and no apt-get to install it with."
if [ "$(id -u)" = 0 ]; then
    root=()
elif command -v sudo > /dev/null && sudo -n true 2> /dev/null; then
    root=(sudo)
else
    by_hand "There is no chromium here, and installing it needs root."
fi
echo "installing chromium (apt-get install chromium)"
"${root[@]}" apt-get update -qq || by_hand "apt-get update failed."
DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null \
    || by_hand "apt-get install chromium failed."
