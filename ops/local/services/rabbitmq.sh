# shellcheck shell=bash
# Part of services.sh: one RabbitMQ broker in DIR/rabbitmq, with a port mapper of its own.

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
        # The data belongs to this name, so it must not depend on where DIR is. Only this broker's own port mapper
        # knows it: others of the same name are not in its way.
        RABBITMQ_NODENAME=connect@localhost
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
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'
        # Together: no shell on standard input, and no script that stays as the broker's parent.
        RABBITMQ_ALLOW_INPUT=true
        RABBITMQ_SERVER_START_ARGS=-noinput
    )
}

init_rabbitmq() {
    mkdir -p "$DIR/rabbitmq"
    echo '[].' >"$DIR/rabbitmq/enabled_plugins"
    : >"$DIR/rabbitmq/environment.conf"
    if [[ ! -s $DIR/rabbitmq/.erlang.cookie ]]; then
        # Whoever has it can run code in the broker. The one that Erlang would make is short.
        (umask 077 && head -c 32 /dev/urandom | base64 -w 0 | tr -d '+/=' >"$DIR/rabbitmq/.erlang.cookie")
        chmod 400 "$DIR/rabbitmq/.erlang.cookie"
    fi
}

# Half of a broker's start goes into looking through plugins that it won't load. It is therefore shown an installation,
# made of links, that has none: only the libraries of the broker itself.
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
    pid=$(cat "$DIR/rabbitmq/$1" 2>/dev/null) || return 1
    alive "$pid" || return 1
    tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qxF "$2" || return 1
    printf '%s\n' "$pid"
}

broker_pid() { process_of beam.pid "RABBITMQ_MNESIA_BASE=$DIR/rabbitmq/data"; }
epmd_pid() { process_of epmd.pid "CONNECT_DIRECTORY=$DIR"; }

# Whether a broker answers on the port. It begins to listen when all else is up, and must answer a greeting.
amqp_answers() {
    local answer=
    {
        exec 6<>"/dev/tcp/127.0.0.1/$1" || return 1
        printf 'AMQP\0\0\011\001' >&6
        LC_ALL=C IFS= read -r -t 2 -N 1 -u 6 answer || true
        exec 6>&-
    } 2>/dev/null
    # A method frame: Connection.Start.
    [[ $answer == $'\001' ]]
}

print_amqp_url() {
    local port
    read -r port _ <"$DIR/rabbitmq.ports"
    printf 'AMQP_URL=amqp://guest:guest@127.0.0.1:%s/%%2f\n' "$port"
}

# start_rabbitmq [PORT]
start_rabbitmq() {
    local port=${1:-} dist='' epmd='' known='' environment deadline=$((SECONDS + START_TIMEOUT))
    [[ -x $RABBITMQ_SCRIPTS/rabbitmq-server ]] || fail "RabbitMQ is missing, run: $SELF install"
    mkdir -p "$DIR"
    hold rabbitmq
    read -r known dist epmd 2>/dev/null <"$DIR/rabbitmq.ports" || true
    if broker_pid >/dev/null && amqp_answers "$known"; then
        [[ -z $port || $port == "$known" ]] || fail "RabbitMQ of $DIR runs already, on port $known"
        print_amqp_url
        return
    fi
    # What an interrupted start has left would be in the way.
    end_rabbitmq TERM
    if [[ -z $epmd ]]; then
        { read -r known && read -r dist && read -r epmd; } < <(take_ports 3)
    fi
    port=${port:-$known}
    check_port "$port"
    printf '%s %s %s\n' "$port" "$dist" "$epmd" >"$DIR/rabbitmq.ports"
    init_rabbitmq
    link_program
    rabbitmq_settings "$port" >"$DIR/rabbitmq/rabbitmq.conf"
    rabbitmq_environment

    # Erlang's port mapper, which the broker would otherwise share with, or start for, the whole machine.
    launch "$DIR/rabbitmq/out.log" '' env -i CONNECT_DIRECTORY="$DIR" PATH=/usr/bin:/bin \
        epmd -address 127.0.0.1 -port "$epmd"
    printf '%s\n' "$launched" >"$DIR/rabbitmq/epmd.pid"
    until port_answers "$epmd"; do
        if ! alive "$launched" || ((SECONDS > deadline)); then fail "epmd did not start on port $epmd"; fi
        sleep 0.01
    done

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

# Connections are files; the usual limit of 1,024 is soon reached. More than this makes Erlang's tables large.
allow_many_files() {
    local hard
    hard=$(ulimit -Hn)
    [[ $hard != unlimited ]] && ((hard < 65536)) || hard=65536
    ulimit -Sn "$hard" 2>/dev/null || true
}

# end_rabbitmq SIGNAL: the broker, then its port mapper. The broker's child processes end with it.
end_rabbitmq() {
    local pid
    if pid=$(broker_pid); then end_process "$pid" "$1"; fi
    if pid=$(epmd_pid); then end_process "$pid" TERM; fi
    rm -f "$DIR/rabbitmq/beam.pid" "$DIR/rabbitmq/epmd.pid"
}

# RabbitMQ has messages on disk when it confirms them, but what it knows of its queues up to a second after it has
# declared one: killed within it, the queue and all that it confirmed are lost. No program can make up for that, so
# a test's crash must not hit it.
flush_metadata() {
    local environment
    broker_pid >/dev/null || return 0
    rabbitmq_environment
    echo 'mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()].' |
        timeout 5 "${environment[@]}" erl_call -sname connect@localhost -e >/dev/null 2>&1 ||
        say "the broker's metadata could not be flushed, killing it all the same"
}

# stop_rabbitmq [fast|immediate]
stop_rabbitmq() {
    local signal
    case ${1:-fast} in
    fast) signal=TERM ;;
    immediate) signal=KILL ;;
    *) misused ;;
    esac
    [[ -d $DIR/rabbitmq ]] || return 0
    hold rabbitmq
    [[ $signal != KILL ]] || flush_metadata
    end_rabbitmq "$signal"
}
