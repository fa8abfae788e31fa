# shellcheck shell=bash
# What run.sh, test.sh, bench.sh and ../grafana/picture/run.sh share: the tools, PostgreSQL and RabbitMQ that Connect needs. To be sourced.
#
# Where DATABASE_URL or AMQP_URL is set, that server is used. For the other a private one is started, and stopped
# when the script ends, whatever ends it; its data stays for the next time.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SERVICES=$ROOT/ops/local/services.sh
# shellcheck disable=SC2034  # for the scripts
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
cd "$ROOT" || exit

# Each argument is a line.
say() { printf '%s\n' "$@"; }

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# step TEXT: what begins now, the next of the script's $STEPS. On a terminal with a bar of those that are done.
step() {
    STEP=$((${STEP:-0} + 1))
    local done='' left='' n
    for ((n = 1; n <= STEPS; n++)); do
        if ((n < STEP)); then done+='##'; else left+='..'; fi
    done
    if [[ -t 1 ]]; then printf '[%s%s] ' "$done" "$left"; fi
    say "$STEP of $STEPS: $1"
}

# hold DIRECTORY [-n]: two scripts must not share private servers, the first to end would stop the other's. Waits for
# the other's end, or with -n returns 1. The lock is descriptor 9, which no child gets: it is this script's alone.
hold() {
    mkdir -p "$1"
    exec 9>"$1/.lock"
    flock "${@:2}" 9
}

# bring_up DIRECTORY [GROUP...]: installs what is missing (the groups of services.sh install) and exports DATABASE_URL
# and AMQP_URL, with private servers in DIRECTORY where they aren't given. Two steps.
bring_up() {
    local directory=$1 lines
    shift
    step 'installing what is missing'
    "$SERVICES" install "$@" 9>&-
    use_cargo
    # Programs and load generators hold a file for each connection, and the usual limit is 1,024.
    ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true
    SERVERS=$directory
    trap take_down EXIT
    # A script that is told to stop ends like any other, by the trap above.
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [[ -z ${DATABASE_URL:-} && -z ${AMQP_URL:-} ]]; then
        step "starting private PostgreSQL and RabbitMQ in ${directory#"$ROOT"/}"
        lines=$("$SERVICES" start "$directory" 9>&-)
    elif [[ -z ${DATABASE_URL:-} ]]; then
        step "starting a private PostgreSQL in ${directory#"$ROOT"/}, RabbitMQ is given by AMQP_URL"
        lines=$("$SERVICES" start-postgres "$directory" 9>&-)
    elif [[ -z ${AMQP_URL:-} ]]; then
        step "starting a private RabbitMQ in ${directory#"$ROOT"/}, PostgreSQL is given by DATABASE_URL"
        lines=$("$SERVICES" start-rabbitmq "$directory" 9>&-)
    else
        step "using PostgreSQL and RabbitMQ given by DATABASE_URL and AMQP_URL"
        lines=
    fi
    local line
    while read -r line; do
        [[ -z $line ]] || export "${line?}"
    done <<<"$lines"
    export DATABASE_URL AMQP_URL
}

take_down() {
    insist
    "$SERVICES" stop "$SERVERS" 9>&-
}

# For the end of a script: neither a second Ctrl-C nor a terminal or pipe that is gone may leave half of it running.
insist() {
    trap '' HUP INT TERM PIPE
    set +eu
}

# rustup puts cargo where a shell without its profile (CI's, sudo's) doesn't look.
use_cargo() {
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo >/dev/null || fail "cargo is missing: install Rust, see https://rustup.rs"
}
