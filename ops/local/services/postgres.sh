# shellcheck shell=bash
# Part of services.sh: one PostgreSQL server in DIR/postgres.

# postgres_programs [VERSION]: the directory of its programs, of the newest version if none is given. They are not in
# PATH: Debian keeps versions side by side.
postgres_programs() {
    local version=${1:-} found
    if [[ -z $version ]]; then
        # Of 15 or newer. A directory without initdb has only the client's programs.
        version=$(for found in /usr/lib/postgresql/*/bin/initdb; do
            found=${found#/usr/lib/postgresql/} && echo "${found%%/*}"
        done | sort -n | tail -n 1)
        [[ $version =~ ^[0-9]+$ ]] && ((version >= 15)) || return 1
    fi
    [[ -x /usr/lib/postgresql/$version/bin/initdb ]] || return 1
    printf '/usr/lib/postgresql/%s/bin\n' "$version"
}

# PostgreSQL refuses to run as root, so root switches to the user that the package created.
as_server() {
    if ((EUID == 0)); then
        setpriv --reuid postgres --regid postgres --clear-groups -- "$@"
    else
        "$@"
    fi
}

# The server's only view of its directory. That user may have no way to DIR by its path (below /root, say), yet it
# may use a descriptor that was opened for it: paths below need no permission on what lies above. Once started, the
# server works with relative paths. No capability is needed for this, so none can be abused.
DATA_PATH=/proc/self/fd/7

# PG* variables of the caller must not reach the server, its messages must be readable by this script.
SERVER_ENV=(env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 TZ=UTC)

# in_directory DIRECTORY COMMAND...: as the server's user, DATA_PATH being DIRECTORY.
in_directory() {
    local directory=$1
    shift
    (
        exec 7<"$directory" 9>&-
        cd /
        as_server "${SERVER_ENV[@]}" "$@"
    )
}

postgres_settings() {
    local durable=on
    ! is_volatile || durable=off
    cat <<CONF
# Written by services.sh at every start: change it there.
listen_addresses = '127.0.0.1'
port = $1
# A socket's path may have 107 bytes, a test's directory has more: TCP only.
unix_socket_directories = ''
# Tests run side by side, each with its programs' pools, on a slow machine more of them at once.
max_connections = 400
shared_buffers = 256MB
# A commit is on disk before it is confirmed, unless the directory was made volatile.
fsync = $durable
synchronous_commit = on
full_page_writes = $durable
# A burst shouldn't force checkpoints.
max_wal_size = 2GB
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %d %a '
# Logs each wait of a second for a lock: lock order is part of the design.
log_lock_waits = on
# In the titles of its processes.
cluster_name = '$(cluster_name)'
CONF
}

# Short, and always the same for one directory.
cluster_name() {
    printf 'connect-%s' "$(printf '%s' "$DIR" | cksum | cut -d ' ' -f 1)"
}

# Only this machine's programs can reach the server, so it asks for no password.
postgres_access() {
    echo '# TYPE  DATABASE  USER  ADDRESS       METHOD'
    echo 'host    all       all   127.0.0.1/32  trust'
    # Standbys of this machine.
    echo 'host    replication  all  127.0.0.1/32  trust'
}

# Created in a temporary directory and moved when complete: an interrupted attempt leaves no partial cluster.
init_postgres() {
    local fresh=$DIR/postgres.new programs
    programs=$(postgres_programs) || fail "PostgreSQL 15 or newer is missing, run: $SELF install"
    rm -rf "$fresh"
    mkdir -m 700 "$fresh"
    ((EUID != 0)) || chown postgres:postgres "$fresh"
    # C.UTF-8 sorts by code point the same everywhere and knows letters beyond ASCII. Flushing an empty cluster to
    # disk would only take time: if the machine goes down now, there is nothing to lose.
    in_directory "$fresh" "$programs/initdb" -D "$DATA_PATH" --username=connect --auth=trust --encoding=UTF8 \
        --locale=C.UTF-8 --no-sync --no-instructions >>"$DIR/postgres.log" 2>&1 </dev/null ||
        { show_log "$DIR/postgres.log" && fail "initdb failed, see $DIR/postgres.log"; }
    echo 'CREATE DATABASE connect' |
        in_directory "$fresh" "$programs/postgres" --single -D "$DATA_PATH" postgres >>"$DIR/postgres.log" 2>&1 ||
        { show_log "$DIR/postgres.log" && fail "the database could not be created, see $DIR/postgres.log"; }
    mv -T "$fresh" "$DIR/postgres"
}

# start_standby PRIMARY_DIR: a streaming standby of the server of PRIMARY_DIR. Its first start copies the data.
start_standby() {
    local primary fresh=$DIR/postgres.new programs port
    [[ -n ${1:-} ]] || fail_usage
    primary=$(realpath -m -- "$1")
    if [[ ! -d $DIR/postgres ]]; then
        mkdir -p "$DIR"
        port=$(cat "$primary/postgres.port" 2>/dev/null) || fail "no PostgreSQL was started in $primary"
        programs=$(postgres_programs "$(cat "$primary/postgres/PG_VERSION")") || fail "PostgreSQL is missing"
        rm -rf "$fresh"
        mkdir -m 700 "$fresh"
        ((EUID != 0)) || chown postgres:postgres "$fresh"
        in_directory "$fresh" "$programs/pg_basebackup" -D "$DATA_PATH" -h 127.0.0.1 -p "$port" -U connect \
            --checkpoint=fast --write-recovery-conf --no-sync >>"$DIR/postgres.log" 2>&1 </dev/null ||
            { show_log "$DIR/postgres.log" && fail "pg_basebackup failed, see $DIR/postgres.log"; }
        # It names the process of the primary.
        rm -f "$fresh/postmaster.pid"
        mv -T "$fresh" "$DIR/postgres"
    fi
    start_postgres
}

# The process id of this directory's server, if it runs. The process id alone is no proof, because another
# process may have it now; the command line names the directory.
postgres_pid() {
    local pid
    pid=$(sed -n 1p "$DIR/postgres/postmaster.pid" 2>/dev/null) || return 1
    alive "$pid" || return 1
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "connect.directory=$DIR" || return 1
    printf '%s\n' "$pid"
}

# Child processes of a killed server end when they notice, which may take long while they compute; until then no new
# server can start.
end_orphans() {
    local file title pid mine
    mine="postgres: $(cluster_name): "
    for file in /proc/[0-9]*/cmdline; do
        read -r -d '' title 2>/dev/null <"$file" || true
        [[ ${title:-} == "$mine"* ]] || continue
        pid=${file#/proc/}
        end_process "${pid%/*}" QUIT
    done
    # The killed server itself stays as a zombie, forever in a container whose first process collects none. It would
    # pass for a server that runs.
    pid=$(sed -n 1p "$DIR/postgres/postmaster.pid" 2>/dev/null) || return 0
    if [[ -e /proc/$pid ]] && ! alive "$pid"; then rm -f "$DIR/postgres/postmaster.pid"; fi
}

print_database_url() {
    printf 'DATABASE_URL=postgres://connect@127.0.0.1:%s/connect\n' "$(cat "$DIR/postgres.port")"
}

# start_postgres [PORT]
start_postgres() {
    local port=${1:-} programs deadline=$((SECONDS + START_TIMEOUT))
    mkdir -p "$DIR"
    acquire_lock postgres
    if postgres_pid >/dev/null; then
        [[ -z $port || $port == "$(cat "$DIR/postgres.port")" ]] ||
            fail "PostgreSQL of $DIR runs already, on port $(cat "$DIR/postgres.port")"
        print_database_url
        return
    fi
    [[ -d $DIR/postgres ]] || init_postgres
    end_orphans
    programs=$(postgres_programs "$(cat "$DIR/postgres/PG_VERSION")") ||
        fail "$DIR/postgres was made by PostgreSQL $(cat "$DIR/postgres/PG_VERSION"), which is not installed"
    [[ -n $port ]] || port=$(cat "$DIR/postgres.port" 2>/dev/null) || port=$(take_ports 1)
    check_port "$port"
    printf '%s\n' "$port" >"$DIR/postgres.port"
    postgres_settings "$port" | in_directory "$DIR/postgres" tee "$DATA_PATH/postgresql.conf" >/dev/null
    postgres_access | in_directory "$DIR/postgres" tee "$DATA_PATH/pg_hba.conf" >/dev/null

    launch_postgres "$programs"
    # The server writes its state in the file's eighth line.
    until [[ $(sed -n '1p;8p' "$DIR/postgres/postmaster.pid" 2>/dev/null | tr -d ' \n') == "${launched}ready" ]]; do
        if ! alive "$launched"; then
            show_log "$DIR/postgres.log"
            fail "PostgreSQL did not start on port $port, see $DIR/postgres.log"
        fi
        if ((SECONDS > deadline)); then
            end_process "$launched" QUIT
            show_log "$DIR/postgres.log"
            fail "PostgreSQL did not accept connections in $START_TIMEOUT s, see $DIR/postgres.log"
        fi
        sleep 0.02
    done
    print_database_url
}

launch_postgres() {
    local command=("${SERVER_ENV[@]}" "$1/postgres" -D "$DATA_PATH" -c "connect.directory=$DIR")
    ((EUID != 0)) || command=(setpriv --reuid postgres --regid postgres --clear-groups -- "${command[@]}")
    launch "$DIR/postgres.log" "$DIR/postgres" "${command[@]}"
}

# stop_postgres [fast|immediate]
stop_postgres() {
    local signal pid
    case ${1:-fast} in
    fast) signal=INT ;;
    immediate) signal=QUIT ;;
    *) fail_usage ;;
    esac
    [[ -d $DIR/postgres ]] || return 0
    acquire_lock postgres
    if pid=$(postgres_pid); then end_process "$pid" "$signal"; fi
    end_orphans
}
