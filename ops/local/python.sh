#!/usr/bin/env bash
# The Python tools of the tests, at the versions of tests/schemathesis/requirements.txt, in a virtual environment below
# cargo's target directory. Makes it where it is missing or the versions have changed, and prints the directory of its
# programs. May run several times at once.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
REQUIREMENTS=$ROOT/tests/schemathesis/requirements.txt
PLACE=${CARGO_TARGET_DIR:-$ROOT/target}/python

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

make_environment() {
    local log=$PLACE.log
    printf 'installing Python tools in %s\n' "${PLACE#"$ROOT"/}" >&2
    rm -rf "$PLACE"
    {
        python3 -m venv "$PLACE" &&
            "$PLACE/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes --only-binary :all: \
                --requirement "$REQUIREMENTS"
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2 && fail "the Python tools can't be installed, see $log"; }
    cp "$REQUIREMENTS" "$PLACE/requirements.txt"
}

"$ROOT/ops/local/services.sh" install python
mkdir -p "${PLACE%/*}"
exec 8>"$PLACE.lock"
flock -w 600 8 || fail "another installation is under way"
cmp -s "$REQUIREMENTS" "$PLACE/requirements.txt" || make_environment >&2
printf '%s/bin\n' "$PLACE"
