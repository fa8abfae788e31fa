#!/usr/bin/env bash
# Takes the pictures of docs/pictures again: a console with the traffic of an agency, in Chromium.
#
# PostgreSQL and RabbitMQ are private ones in .run/screenshots, or those of DATABASE_URL and AMQP_URL.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

DIRECTORY=$ROOT/.run/screenshots
STEPS=4
acquire_lock "$DIRECTORY" -n || fail "another run of this script is taking the pictures"
start_servers "$DIRECTORY" postgres rabbitmq tools browser

step 'building'
cargo build --workspace --bins 9>&-
step 'taking the pictures'
"$TARGET/debug/connect-screenshots" "$@" 9>&-
