#!/usr/bin/env bash
# The Python tools of the tests, at the versions of tests/python/requirements.txt, and axe-core, at that of
# tests/accessibility/requirements.txt, in a virtual environment below cargo's target directory. Creates it if it does not exist or
# the versions have changed, and prints the directory of its programs. Several runs at once are safe.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
REQUIREMENTS=$ROOT/tests/python/requirements.txt
AXE=$ROOT/tests/accessibility/requirements.txt
VENV=${CARGO_TARGET_DIR:-$ROOT/target}/python

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

install_packages() {
    "$VENV/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes --only-binary :all: "$@"
}

make_environment() {
    local log=$VENV.log
    printf 'installing Python tools in %s\n' "${VENV#"$ROOT"/}" >&2
    rm -rf "$VENV"
    {
        python3 -m venv "$VENV" &&
            install_packages --requirement "$REQUIREMENTS" &&
            install_packages --no-deps --requirement "$AXE"
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2 && fail "the Python tools could not be installed, see $log"; }
    cat "$REQUIREMENTS" "$AXE" >"$VENV/requirements.txt"
}

"$ROOT/ops/local/services.sh" install python
mkdir -p "${VENV%/*}"
exec 8>"$VENV.lock"
flock -w 600 8 || fail "another installation is under way"
cat "$REQUIREMENTS" "$AXE" | cmp -s - "$VENV/requirements.txt" || make_environment >&2
printf '%s/bin\n' "$VENV"
