#!/usr/bin/env bash
# Upgrades a running system from an earlier release under load, and checks the result: `make upgrade`, or
# `make upgrade ARGS="--minutes 3 --seed 7"` with options of connect-torture. CONNECT_UPGRADE_FROM names another commit.
#
# Builds the programs of that commit from this repository's history, in .run/releases.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

# The previous release, as CHANGELOG.md calls it: the last commit of 2026-11-21.
FROM=${CONNECT_UPGRADE_FROM:-51af5b0f1f02d2d1f1a810710f2df22f4c6d50e1}

STEPS=4
step 'installing what is missing'
"$SERVICES" install
use_cargo
if ! git -C "$ROOT" cat-file -e "$FROM^{commit}" 2>/dev/null; then
    fail "the history of this repository does not contain commit $FROM; fetch it, for example with git fetch --unshallow"
fi
step "building the programs of ${FROM:0:7}"
RELEASE=$ROOT/.run/releases/$FROM
if ! [ -d "$RELEASE" ]; then
    mkdir -p "$RELEASE.new"
    git -C "$ROOT" archive "$FROM" | tar -x -C "$RELEASE.new"
    mv "$RELEASE.new" "$RELEASE"
fi
(cd "$RELEASE" && cargo build --workspace --bins --locked --target-dir "$RELEASE/target")
# Programs need a file descriptor for each connection; the usual limit is 1,024.
ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true
export CONNECT_SERVICES=$SERVICES
step 'building'
cargo build --workspace --bins
step 'running'
"$TARGET/debug/connect-torture" --upgrade-from "$RELEASE/target/debug" "$@"
