#!/usr/bin/env bash
# Builds everything and runs all tests against real servers: `make test`, or `make test ARGS="name -- --nocapture"`.
#
# PostgreSQL and RabbitMQ are private ones in .run/test, or those of DATABASE_URL and AMQP_URL. Arguments are those
# of `cargo test`. CONNECT_TEST_THREADS limits how many tests run at once (default: three for each CPU, because
# tests of real programs mostly wait).

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

DIRECTORY=$ROOT/.run/test
STEPS=4
acquire_lock "$DIRECTORY" -n || { say "another \`make test\` is running here, waiting for it" && acquire_lock "$DIRECTORY"; }
# Tests that kill a server have servers of their own, which are durable. The others need not wait for the disk.
"$SERVICES" make-volatile "$DIRECTORY" 9>&-
# Tests need more than the programs: Prometheus, Node, PHP and Python for alerts and examples, a browser for the API's page.
start_servers "$DIRECTORY" postgres rabbitmq tools checks browser python
"$ROOT/ops/local/python.sh" >/dev/null 9>&-

# Hundreds of programs start and end: a third of their processor time was clearing memory that they hardly use. The AMQP library
# clears 64 times the largest frame for each connection, and the allocator's huge pages are cleared as a whole.
[[ $AMQP_URL == *\?* ]] || export AMQP_URL="$AMQP_URL?frame_max=16384"
export MIMALLOC_ALLOW_THP=0

# Tests that kill a server start and stop their own with this script.
export CONNECT_SERVICES=$SERVICES

export RUST_TEST_THREADS=${CONNECT_TEST_THREADS:-$(($(nproc) * 3))}

step 'building'
# End-to-end tests start the programs, which cargo doesn't build for another crate's tests. Built together with the tests, they
# have the same features of their dependencies, so that nothing is built twice.
targets=(--bins --tests)
[[ " $* " == *' --test it '* ]] && targets=(--bins --test it)
cargo build --workspace "${targets[@]}" 9>&-
export CONNECT_TEST_PROGRAMS=$TARGET/debug
step 'testing'
CONNECT_TEST_DURATIONS=$DIRECTORY/durations
rm -f "$CONNECT_TEST_DURATIONS"
export CONNECT_TEST_DURATIONS
failed=0
cargo test --workspace "$@" 9>&- || failed=$?
if [[ -s $CONNECT_TEST_DURATIONS ]]; then
    say 'The slowest tests:'
    sort -rn "$CONNECT_TEST_DURATIONS" | sed -n '1,10p'
fi
if [[ $("${CONNECT_PGBOUNCER:-/usr/sbin/pgbouncer}" --version) =~ 'PgBouncer 1.'([0-9]+) ]] && ((BASH_REMATCH[1] < 21)); then
    say 'NOT TESTED: transactions through PgBouncer, whose version here is older than 1.21. CONNECT_PGBOUNCER names another one.'
fi
unshare --mount true 2>/dev/null || say 'NOT TESTED: silent name servers, for which the tests must run as root.'
exit "$failed"
