# shellcheck shell=bash
# Sourced by run.sh, test.sh, bench.sh and fuzz.sh: installs tools, starts the servers.
#
# Where DATABASE_URL or AMQP_URL is set, that server is used. Otherwise a private one is started, and stopped
# when the script ends, for whatever reason; its data stays for the next run.

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

# step TEXT: prints the next of the script's $STEPS. On a terminal with a progress bar.
step() {
    STEP=$((${STEP:-0} + 1))
    local done='' left='' n
    for ((n = 1; n <= STEPS; n++)); do
        if ((n < STEP)); then done+='##'; else left+='..'; fi
    done
    if [[ -t 1 ]]; then printf '[%s%s] ' "$done" "$left"; fi
    say "$STEP of $STEPS: $1"
}

# acquire_lock DIRECTORY [-n]: two scripts must not share private servers, as the first to end would stop them. Waits
# until the other script ends, or with -n returns 1. The lock is descriptor 9, which no child process inherits.
acquire_lock() {
    mkdir -p "$1"
    exec 9>"$1/.lock"
    flock "${@:2}" 9
}

# start_servers DIRECTORY [GROUP...]: installs what is missing (the groups of services.sh install) and exports DATABASE_URL
# and AMQP_URL, with private servers in DIRECTORY for those that are not set. Two steps.
start_servers() {
    local directory=$1 lines
    shift
    step 'installing what is missing'
    "$SERVICES" install "$@" 9>&-
    use_cargo
    # Programs and load generators need a file descriptor for each connection; the usual limit is 1,024.
    ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true
    SERVERS=$directory
    trap stop_servers EXIT
    # On these signals the script exits, which runs the trap above.
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [[ -z ${DATABASE_URL:-} && -z ${AMQP_URL:-} ]]; then
        step "starting private PostgreSQL and RabbitMQ in ${directory#"$ROOT"/}"
        lines=$("$SERVICES" start "$directory" 9>&-)
    elif [[ -z ${DATABASE_URL:-} ]]; then
        step "starting a private PostgreSQL in ${directory#"$ROOT"/}, RabbitMQ of AMQP_URL"
        lines=$("$SERVICES" start-postgres "$directory" 9>&-)
    elif [[ -z ${AMQP_URL:-} ]]; then
        step "starting a private RabbitMQ in ${directory#"$ROOT"/}, PostgreSQL of DATABASE_URL"
        lines=$("$SERVICES" start-rabbitmq "$directory" 9>&-)
    else
        step "using PostgreSQL of DATABASE_URL and RabbitMQ of AMQP_URL"
        lines=
    fi
    local line
    while read -r line; do
        [[ -z $line ]] || export "${line?}"
    done <<<"$lines"
    export DATABASE_URL AMQP_URL
}

stop_servers() {
    ignore_signals
    "$SERVICES" stop "$SERVERS" 9>&-
}

# For the end of a script: a second Ctrl-C, or a closed terminal or pipe, must not interrupt the clean-up.
ignore_signals() {
    trap '' HUP INT TERM PIPE
    set +eu
}

# rustup puts cargo where a shell without its profile (CI's, sudo's) doesn't look.
use_cargo() {
    command -v cargo >/dev/null || PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    command -v cargo >/dev/null || fail "cargo is missing: install Rust, see https://rustup.rs"
}
