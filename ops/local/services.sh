#!/usr/bin/env bash
# Private PostgreSQL and RabbitMQ servers for development, tests and benchmarks.
#
# Each directory DIR holds one server of each kind with all that belongs to it: data, logs, ports, process ids.
# They run from Debian's packages (PostgreSQL 15 or newer, RabbitMQ 3.10 or newer), listen on 127.0.0.1 only, and
# know nothing of the servers that the system itself may run. What is committed or confirmed is on disk, as in
# production, so that tests which kill a server mean something.
#
#   services.sh install [postgres] [rabbitmq] [tools] [checks] [browser] [python]
#                                     installs what is missing (default: the first three; the others are what only
#                                     the tests need); starts nothing
#   services.sh start-postgres DIR [PORT]
#                                     prints DATABASE_URL=postgres://connect@127.0.0.1:PORT/connect
#   services.sh stop-postgres DIR [fast|immediate]
#                                     immediate: as in a crash; the next start recovers from the log
#   services.sh start-rabbitmq DIR [PORT]
#                                     prints AMQP_URL=amqp://guest:guest@127.0.0.1:PORT/%2f
#   services.sh stop-rabbitmq DIR [fast|immediate]
#                                     immediate: killed, as in a crash
#   services.sh start DIR             both at once
#   services.sh stop DIR              both
#   services.sh stop-all DIR          every server that lives anywhere below DIR
#   services.sh env DIR               prints the lines of those that run, nothing for those that don't
#   services.sh rabbitmqctl DIR ...   rabbitmqctl against this directory's broker
#   services.sh free-port [COUNT]     prints free ports, one a line, none twice
#
# Every command may be repeated and may run several times at once: a start returns when the server answers (or has
# answered already), a stop when it is gone. A server keeps its port and its data over restarts. Errors go to
# standard error with exit code 1, wrong usage with 2; the servers' logs are DIR/postgres.log and DIR/rabbitmq.log.

set -euo pipefail

SELF=$(readlink -f "${BASH_SOURCE[0]}")

# shellcheck source-path=SCRIPTDIR
source "${SELF%/*}/services/process.sh"
# shellcheck source-path=SCRIPTDIR
source "${SELF%/*}/services/install.sh"
# shellcheck source-path=SCRIPTDIR
source "${SELF%/*}/services/postgres.sh"
# shellcheck source-path=SCRIPTDIR
source "${SELF%/*}/services/rabbitmq.sh"

# Longest waits, in seconds. A first start takes about a second for PostgreSQL and three for RabbitMQ.
START_TIMEOUT=90
STOP_TIMEOUT=30

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "services.sh: $*"
    exit 1
}

usage() {
    sed -n '2,/^$/s/^# \{0,1\}//p' "$SELF"
}

misused() {
    say "services.sh: wrong usage, see services.sh --help"
    exit 2
}

# use_directory DIR: checks the argument and makes it absolute.
use_directory() {
    [[ -n ${1:-} ]] || misused
    DIR=$(realpath -m -- "$1")
    # The Erlang start scripts split words, and a connection string shouldn't need quoting either.
    [[ $DIR != *[[:space:]]* ]] || fail "the path must not hold white space: $DIR"
}

# in_parallel COMMAND...: this script once for each command, on DIR; fails if one fails.
in_parallel() {
    local command pids=() pid failed=0
    for command in "$@"; do
        "$SELF" "$command" "$DIR" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    return "$failed"
}

# The ports' files mark a directory of servers. Their data isn't searched.
stop_all() {
    local directory failed=0
    [[ -d $DIR ]] || return 0
    while read -r directory; do
        "$SELF" stop "$directory" || failed=1
    done < <(find "$DIR" \( -name postgres -o -name rabbitmq \) -prune -o \
        \( -name postgres.port -o -name rabbitmq.ports \) -printf '%h\n' | sort -u)
    return "$failed"
}

main() {
    local command=${1:-}
    [[ -n $command ]] || misused
    shift
    case $command in
    -h | --help | help)
        usage
        return
        ;;
    install)
        install_missing "$@"
        return
        ;;
    free-port)
        take_ports "${1:-1}"
        return
        ;;
    esac

    use_directory "${1:-}"
    shift
    case $command in
    start-postgres) start_postgres "$@" ;;
    stop-postgres) stop_postgres "$@" ;;
    start-rabbitmq) start_rabbitmq "$@" ;;
    stop-rabbitmq) stop_rabbitmq "$@" ;;
    start) in_parallel start-postgres start-rabbitmq ;;
    stop) in_parallel stop-postgres stop-rabbitmq ;;
    stop-all) stop_all ;;
    env)
        if postgres_pid >/dev/null; then print_database_url; fi
        if broker_pid >/dev/null; then print_amqp_url; fi
        ;;
    rabbitmqctl)
        local environment
        # It would start a port mapper of its own, which nobody would stop.
        broker_pid >/dev/null || fail "RabbitMQ of $DIR does not run"
        rabbitmq_environment
        exec "${environment[@]}" "$RABBITMQ_SCRIPTS/rabbitmqctl" "$@"
        ;;
    *) misused ;;
    esac
}

main "$@"
