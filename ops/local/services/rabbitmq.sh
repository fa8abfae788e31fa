# shellcheck shell=bash
# Part of services.sh: one RabbitMQ broker in DIR/rabbitmq, with a port mapper of its own, or one node of a cluster.

RABBITMQ_SCRIPTS=/usr/lib/rabbitmq/bin

rabbitmq_settings() {
    cat <<CONF
# Written by services.sh at every start: change it there.
listeners.tcp.local = 127.0.0.1:$1
# At these limits the broker blocks publishers. A development machine may be short of disk, and its memory is not
# the broker's alone.
disk_free_limit.absolute = 50MB
vm_memory_high_watermark.absolute = 2GB
# Quorum queues: the default, 512 MB, is kept in memory and read again at every restart.
raft.wal_max_size_bytes = 64000000
# The file is RABBITMQ_LOGS. Two lines for each connection would hide the rest.
log.console = false
log.file.level = info
log.connection.level = warning
# The user guest, and those of the tests, which have the permissions that the programs need.
load_definitions = $DIR/rabbitmq/definitions.json
CONF
    [[ -z $(cluster_of_node) ]] || cluster_settings
}

# The nodes of a cluster are in node-1 to node-3 of its directory, which has their port mapper and Erlang cookie: the port mapper must outlive
# each node. This prints the cluster's directory, or nothing for a broker of its own.
cluster_of_node() {
    [[ -e $DIR/rabbitmq.node ]] || return 0
    dirname "$DIR"
}

# The data belongs to this name, so it must not depend on where DIR is.
node_name() {
    if [[ -e $DIR/rabbitmq.node ]]; then
        echo "connect-$(cat "$DIR/rabbitmq.node")@localhost"
    else
        echo connect@localhost
    fi
}

# What docs/deployment.md advises for a cluster, and a network tick that is short enough for tests.
cluster_settings() {
    cat <<CONF
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = connect-1@localhost
cluster_formation.classic_config.nodes.2 = connect-2@localhost
cluster_formation.classic_config.nodes.3 = connect-3@localhost
# The first node need not wait for the others.
cluster_formation.discovery_retry_limit = 1
cluster_formation.discovery_retry_interval = 100
# A node that was cut off stops serving, and joins again when it reaches the others.
cluster_partition_handling = pause_minority
# Leaders of queues are spread over the nodes, instead of all being where the programs have connected.
queue_leader_locator = balanced
net_ticktime = 5
CONF
}

# Sets `environment` to all that the broker and rabbitmqctl need, with nothing of the caller's: RABBITMQ_* and ERL_*
# variables change what they do, and so do the files in /etc/rabbitmq.
rabbitmq_environment() {
    local home=$DIR/rabbitmq dist epmd
    read -r _ dist epmd <"$DIR/rabbitmq.ports"
    environment=(
        env -i PATH=/usr/bin:/bin LANG=C.UTF-8
        # The Erlang cookie is here.
        HOME="$home"
        # Only the port mapper of this broker or cluster knows it: others of the same name are not in its way.
        RABBITMQ_NODENAME="$(node_name)"
        RABBITMQ_DIST_PORT="$dist"
        ERL_EPMD_ADDRESS=127.0.0.1
        ERL_EPMD_PORT="$epmd"
        RABBITMQ_MNESIA_BASE="$home/data"
        RABBITMQ_LOG_BASE="$home"
        RABBITMQ_LOGS="$DIR/rabbitmq.log"
        RABBITMQ_PID_FILE="$home/beam.pid"
        RABBITMQ_CONFIG_FILE="$home/rabbitmq.conf"
        RABBITMQ_CONFIG_FILES="$home/conf.d"
        RABBITMQ_ADVANCED_CONFIG_FILE="$home/advanced.config"
        RABBITMQ_CONF_ENV_FILE="$home/environment.conf"
        RABBITMQ_ENABLED_PLUGINS_FILE="$home/enabled_plugins"
        ERL_CRASH_DUMP="$home/erl_crash.dump"
        # The port between nodes would be open to the network.
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1}$(node_arguments)"
        # Together: no shell on standard input, and no script that stays as the broker's parent.
        RABBITMQ_ALLOW_INPUT=true
        RABBITMQ_SERVER_START_ARGS=-noinput
    )
}

# Three nodes share the machine with the tests: one scheduler each, which does not spin while it waits.
node_arguments() {
    [[ ! -e $DIR/rabbitmq.node ]] || echo ' +S 1:1 +sbwt none'
}

# Settings that rabbitmq.conf cannot have.
rabbitmq_advanced_settings() {
    if is_volatile; then
        echo '[{ra, [{wal_sync_method, none}]}].'
    else
        echo '[].'
    fi
}

init_rabbitmq() {
    mkdir -p "$DIR/rabbitmq"
    rabbitmq_advanced_settings >"$DIR/rabbitmq/advanced.config"
    echo '[].' >"$DIR/rabbitmq/enabled_plugins"
    : >"$DIR/rabbitmq/environment.conf"
    cp "${SELF%/*}/services/definitions.json" "$DIR/rabbitmq/definitions.json"
    local cluster
    cluster=$(cluster_of_node)
    if [[ -n $cluster ]]; then
        make_cookie "$cluster/.erlang.cookie"
        cp -pf "$cluster/.erlang.cookie" "$DIR/rabbitmq/.erlang.cookie"
    else
        make_cookie "$DIR/rabbitmq/.erlang.cookie"
    fi
}

# make_cookie FILE
make_cookie() {
    if [[ ! -s $1 ]]; then
        # Whoever has it can run code in the broker. The one that Erlang would make is short.
        (umask 077 && head -c 32 /dev/urandom | base64 -w 0 | tr -d '+/=' >"$1")
        chmod 400 "$1"
    fi
}

# Half of a broker's start time is spent on plugins that it does not load. It therefore runs from an installation
# of links that has only the libraries of the broker itself.
link_program() {
    local program=$DIR/rabbitmq/program installed library
    installed=$(dirname "$(dirname "$(readlink -f "$RABBITMQ_SCRIPTS/rabbitmq-server")")")
    rm -rf "$program"
    mkdir -p "$program/plugins"
    ln -s "$installed/sbin" "$installed/escript" "$program"
    for library in "$installed"/plugins/*; do
        case ${library##*/} in
        rabbitmq_prelaunch*) ;;
        rabbitmq_* | README) continue ;;
        esac
        ln -s "$library" "$program/plugins"
    done
}

# process_of FILE LINE: the process id in the file, if a process runs that has this line in its environment.
process_of() {
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 1
    alive "$pid" || return 1
    tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "$2" || return 1
    printf '%s\n' "$pid"
}

broker_pid() { process_of "$DIR/rabbitmq/beam.pid" "RABBITMQ_MNESIA_BASE=$DIR/rabbitmq/data"; }
# epmd_pid DIRECTORY: the port mapper of a broker or cluster.
epmd_pid() { process_of "$1/epmd.pid" "CONNECT_DIRECTORY=$1"; }

# Whether a broker accepts connections on the port. It starts to listen when everything else is ready, and must reply to
# a greeting.
amqp_answers() {
    local reply=
    {
        exec 6<>"/dev/tcp/127.0.0.1/$1" || return 1
        printf 'AMQP\0\0\011\001' >&6
        LC_ALL=C IFS= read -r -t 2 -N 1 -u 6 reply || true
        exec 6>&-
    } 2>/dev/null
    # A method frame: Connection.Start.
    [[ $reply == $'\001' ]]
}

print_amqp_url() {
    local port
    read -r port _ <"$DIR/rabbitmq.ports"
    printf 'AMQP_URL=amqp://guest:guest@127.0.0.1:%s/%%2f\n' "$port"
}

# start_rabbitmq [PORT]
start_rabbitmq() {
    local port=${1:-} dist='' epmd='' known='' cluster environment deadline=$((SECONDS + START_TIMEOUT))
    [[ -x $RABBITMQ_SCRIPTS/rabbitmq-server ]] || fail "RabbitMQ is missing, run: $SELF install"
    mkdir -p "$DIR"
    acquire_lock rabbitmq
    read -r known dist epmd 2>/dev/null <"$DIR/rabbitmq.ports" || true
    if broker_pid >/dev/null && amqp_answers "$known"; then
        [[ -z $port || $port == "$known" ]] || fail "RabbitMQ of $DIR runs already, on port $known"
        print_amqp_url
        return
    fi
    # Ends processes that an interrupted start has left.
    end_rabbitmq TERM
    if [[ -z $epmd ]]; then
        { read -r known && read -r dist && read -r epmd; } < <(take_ports 3)
        # The nodes of a cluster share the port mapper of the one that was started first.
        cluster=$(cluster_of_node)
        [[ -z $cluster ]] || epmd=$(cat "$cluster/epmd.port" 2>/dev/null || (echo "$epmd" | tee "$cluster/epmd.port"))
    fi
    port=${port:-$known}
    check_port "$port"
    printf '%s %s %s\n' "$port" "$dist" "$epmd" >"$DIR/rabbitmq.ports"
    init_rabbitmq
    link_program
    rabbitmq_settings "$port" >"$DIR/rabbitmq/rabbitmq.conf"
    rabbitmq_environment

    cluster=$(cluster_of_node)
    start_epmd "${cluster:-$DIR/rabbitmq}" "$epmd" "$deadline"
    allow_many_files
    launch "$DIR/rabbitmq/out.log" '' "${environment[@]}" \
        RABBITMQ_SCRIPTS_DIR="$DIR/rabbitmq/program/sbin" "$DIR/rabbitmq/program/sbin/rabbitmq-server"
    printf '%s\n' "$launched" >"$DIR/rabbitmq/beam.pid"
    until amqp_answers "$port"; do
        if ! alive "$launched" || ((SECONDS > deadline)); then
            end_rabbitmq KILL
            show_log "$DIR/rabbitmq.log"
            show_log "$DIR/rabbitmq/out.log"
            fail "RabbitMQ did not start on port $port, see $DIR/rabbitmq.log and $DIR/rabbitmq/out.log"
        fi
        sleep 0.05
    done
    print_amqp_url
}

# start_epmd DIRECTORY PORT DEADLINE: Erlang's port mapper, which the broker would otherwise share with, or start for, the whole
# machine.
start_epmd() {
    ! epmd_pid "$1" >/dev/null || return 0
    launch "$1/epmd.log" '' env -i CONNECT_DIRECTORY="$1" PATH=/usr/bin:/bin epmd -address 127.0.0.1 -port "$2"
    printf '%s\n' "$launched" >"$1/epmd.pid"
    until port_answers "$2"; do
        if ! alive "$launched" || ((SECONDS > $3)); then fail "epmd did not start on port $2"; fi
        sleep 0.01
    done
}

# start_rabbitmq_node NUMBER: one of the three nodes of the cluster in DIR.
start_rabbitmq_node() {
    [[ ${1:-} == [123] ]] || fail_usage
    DIR=$DIR/node-$1
    mkdir -p "$DIR"
    echo "$1" >"$DIR/rabbitmq.node"
    start_rabbitmq
}

# Connections are files; the usual limit of 1,024 is soon reached. More than this makes Erlang's tables large.
allow_many_files() {
    local hard
    hard=$(ulimit -Hn)
    [[ $hard != unlimited ]] && ((hard < 65536)) || hard=65536
    ulimit -Sn "$hard" 2>/dev/null || true
}

# end_rabbitmq SIGNAL: the broker, then its port mapper, unless that is a cluster's. The broker's child processes end with it.
end_rabbitmq() {
    local pid
    if pid=$(broker_pid); then end_process "$pid" "$1"; fi
    rm -f "$DIR/rabbitmq/beam.pid"
    end_epmd "$DIR/rabbitmq"
}

# end_epmd DIRECTORY
end_epmd() {
    local pid
    if pid=$(epmd_pid "$1"); then end_process "$pid" TERM; fi
    rm -f "$1/epmd.pid"
}

# RabbitMQ has messages on disk when it confirms them, but the metadata of a queue up to a second after declaring it: if
# it is killed within that second, the queue and its confirmed messages are lost. No program can prevent that, so a
# test that crashes the broker must not cause it.
flush_metadata() {
    local environment
    broker_pid >/dev/null || return 0
    evaluate 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].' >/dev/null 2>&1 ||
        say "the broker's metadata could not be flushed, killing it anyway"
}

# evaluate TEXT: Erlang expressions in the broker, which prints `{ok, ...}` with the last one's value.
evaluate() {
    rabbitmq_environment
    printf '%s\n' "$1" | timeout 20 "${environment[@]}" erl_call -sname "$(node_name)" -e
}

# stop_rabbitmq [fast|immediate]
stop_rabbitmq() {
    local signal
    case ${1:-fast} in
    fast) signal=TERM ;;
    immediate) signal=KILL ;;
    *) fail_usage ;;
    esac
    [[ -d $DIR/rabbitmq ]] || return 0
    acquire_lock rabbitmq
    [[ $signal != KILL ]] || flush_metadata
    end_rabbitmq "$signal"
}
