#!/usr/bin/env bash
# Private PostgreSQL and RabbitMQ servers for development, tests and benchmarks.
#
# Each directory DIR holds one server of each kind with its data, logs, ports and process ids. The servers run from
# Debian's packages (PostgreSQL 15 or newer, RabbitMQ 3.10 or newer), listen on 127.0.0.1 only, and are independent of
# the servers that the system itself may run. Committed and confirmed data is on disk, as in production, so that tests
# which kill a server are realistic, except in directories that were made volatile.
#
#   services.sh install [postgres] [rabbitmq] [tools] [checks] [browser] [python]
#                                     installs what is missing (default: the first three; only the tests need the
#                                     others); starts nothing
#   services.sh start-postgres DIR [PORT]
#                                     prints DATABASE_URL=postgres://connect@127.0.0.1:PORT/connect
#   services.sh start-standby DIR PRIMARY_DIR
#                                     the same for a streaming standby of PRIMARY_DIR's server; stop-postgres stops it
#   services.sh stop-postgres DIR [fast|immediate]
#                                     immediate: as in a crash; the next start recovers from the log
#   services.sh start-rabbitmq DIR [PORT]
#                                     prints AMQP_URL=amqp://guest:guest@127.0.0.1:PORT/%2f
#   services.sh stop-rabbitmq DIR [fast|immediate]
#                                     immediate: killed, as in a crash
#   services.sh start-rabbitmq-node DIR NUMBER
#                                     node 1, 2 or 3 of a cluster in DIR. Start the first one before the others. It is in DIR/node-NUMBER,
#                                     which start-rabbitmq and stop-rabbitmq take; stop-all DIR stops the cluster
#   services.sh make-volatile DIR     servers of DIR that start from now on do not wait for the disk: for tests that kill no
#                                     server. A crash of the machine may lose their data
#   services.sh start DIR             both at once
#   services.sh stop DIR              both
#   services.sh stop-all DIR          every server in DIR and below it
#   services.sh env DIR               prints the lines of the servers that run
#   services.sh rabbitmqctl DIR ...   rabbitmqctl against this directory's broker
#   services.sh evaluate DIR TEXT     expressions in the broker, as "rabbitmqctl eval" without a virtual machine for each
#   services.sh free-port [COUNT]     prints free ports, one on each line
#
# Every command may be repeated and may run several times at once: a start returns when the server accepts
# connections, a stop when it has ended. A server keeps its port and its data over restarts. Errors go to
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

fail_usage() {
    say "services.sh: wrong usage, see services.sh --help"
    exit 2
}

# use_directory DIR: checks the argument and makes it absolute.
use_directory() {
    [[ -n ${1:-} ]] || fail_usage
    DIR=$(realpath -m -- "$1")
    # The Erlang start scripts split the path at spaces, and a connection string would need quoting.
    [[ $DIR != *[[:space:]]* ]] || fail "the path must not contain white space: $DIR"
}

# in_parallel COMMAND...: runs this script once for each command, on DIR; fails if one of them fails.
in_parallel() {
    local command pids=() pid failed=0
    for command in "$@"; do
        "$SELF" "$command" "$DIR" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    return "$failed"
}

# A file with ports marks a directory of servers. Directories with data are not searched.
stop_all() {
    local directory failed=0
    [[ -d $DIR ]] || return 0
    while read -r directory; do
        "$SELF" stop "$directory" || failed=1
    done < <(find "$DIR" \( -name postgres -o -name rabbitmq \) -prune -o \
        \( -name postgres.port -o -name rabbitmq.ports \) -printf '%h\n' | sort -u)
    # Port mappers of clusters, after their nodes.
    while read -r directory; do
        end_epmd "$directory"
    done < <(find "$DIR" -name rabbitmq -prune -o -name epmd.pid -printf '%h\n')
    return "$failed"
}

main() {
    local command=${1:-}
    [[ -n $command ]] || fail_usage
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
    start-standby) start_standby "$@" ;;
    stop-postgres) stop_postgres "$@" ;;
    start-rabbitmq) start_rabbitmq "$@" ;;
    start-rabbitmq-node) start_rabbitmq_node "$@" ;;
    stop-rabbitmq) stop_rabbitmq "$@" ;;
    make-volatile) mkdir -p "$DIR" && touch "$DIR/volatile" ;;
    start) in_parallel start-postgres start-rabbitmq ;;
    stop) in_parallel stop-postgres stop-rabbitmq ;;
    stop-all) stop_all ;;
    env)
        if postgres_pid >/dev/null; then print_database_url; fi
        if broker_pid >/dev/null; then print_amqp_url; fi
        ;;
    rabbitmqctl)
        local environment
        # Without a running broker, rabbitmqctl would start a port mapper that nothing stops.
        broker_pid >/dev/null || fail "RabbitMQ of $DIR does not run"
        rabbitmq_environment
        exec "${environment[@]}" "$RABBITMQ_SCRIPTS/rabbitmqctl" "$@"
        ;;
    evaluate)
        local environment
        broker_pid >/dev/null || fail "RabbitMQ of $DIR does not run"
        evaluate "$1"
        ;;
    *) fail_usage ;;
    esac
}

main "$@"
