# shellcheck shell=bash
# Part of services.sh: starting, identifying and ending processes, and the ports they listen on.

# Whether the process runs. A zombie doesn't: in a container the first process may never collect it.
alive() {
    local stat
    [[ -n ${1:-} ]] || return 1
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The state follows the command's name, which stands in brackets and may hold anything.
    stat=${stat##*) }
    [[ ${stat%% *} != [ZX] ]]
}

# wait_gone PID SECONDS
wait_gone() {
    local deadline=$((SECONDS + $2))
    while alive "$1"; do
        ((SECONDS <= deadline)) || return 1
        sleep 0.02
    done
}

# end_process PID SIGNAL: sends the signal, and SIGKILL if the process does not end in time.
end_process() {
    kill -s "$2" "$1" 2>/dev/null || true
    wait_gone "$1" "$STOP_TIMEOUT" && return
    say "process $1 did not end in $STOP_TIMEOUT s, killing it"
    kill -s KILL "$1" 2>/dev/null || true
    wait_gone "$1" 5 || fail "process $1 could not be ended"
}

# launch LOG DIRECTORY COMMAND...: starts a server that outlives this script and its caller, and leaves its process
# id in `launched`. A session of its own keeps the terminal's Ctrl-C away from it. No inherited descriptor stays
# open: one end of a pipe would make the caller's `$(...)` wait for the server's end, and a lock would stay held.
# Descriptor 7 is DIRECTORY, if one is given (see in_directory).
launch() {
    local log=$1 directory=$2
    shift 2
    (
        for descriptor in /proc/"$BASHPID"/fd/*; do
            descriptor=${descriptor##*/}
            # 255 is bash's own, closed by exec.
            ((descriptor <= 2 || descriptor == 255)) || eval "exec $descriptor>&-"
        done
        [[ -z $directory ]] || exec 7<"$directory"
        cd /
        exec setsid "$@" </dev/null >>"$log" 2>&1
    ) &
    launched=$!
}

# Whether the servers of this directory need not have confirmed data on disk.
is_volatile() { [[ -e $DIR/volatile ]]; }

# acquire_lock NAME: allows one command at a time for each server of a directory, until this script ends.
acquire_lock() {
    exec 9>"$DIR/.$1.lock"
    flock -w $((START_TIMEOUT + STOP_TIMEOUT)) 9 || fail "another command holds $DIR/.$1.lock"
}

# show_log FILE: its end, indented, to say why a start failed.
show_log() {
    tail -n 25 "$1" 2>/dev/null | sed 's/^/    /' >&2
}

# Whether any socket of this machine, listening or not, has the local port.
port_taken() {
    grep -qsE "^ *[0-9]+: [0-9A-F]+:$(printf '%04X' "$1") " /proc/net/tcp /proc/net/tcp6
}

# Whether a program listens on the port of 127.0.0.1.
port_answers() {
    grep -qsE "^ *[0-9]+: (0100007F|0{8}|0{32}):$(printf '%04X' "$1") [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6
}

# Ports come from below the kernel's range for outgoing connections. From within it, a client that reconnects while
# the server is down may be given the server's own port as its source, connect to itself, and keep the server from
# starting again. They are handed out in turn, so that two starts at one time don't get the same.
take_ports() {
    local count=$1 low high directory next
    [[ $count =~ ^[0-9]{1,3}$ ]] || fail_usage
    read -r high _ </proc/sys/net/ipv4/ip_local_port_range
    high=$((high > 12000 ? high - 1 : 32767))
    low=$((high - 10000))
    directory=${TMPDIR:-/tmp}/connect-ports-$EUID
    mkdir -m 700 "$directory" 2>/dev/null || [[ -O $directory && ! -L $directory ]] || fail "$directory is not ours"
    (
        flock -w 30 8 || fail "the list of ports is locked"
        next=$(cat "$directory/last" 2>/dev/null) || true
        [[ $next =~ ^[0-9]+$ ]] || next=$((low + RANDOM % (high - low)))
        while ((count > 0)); do
            next=$((next >= high || next < low ? low : next + 1))
            port_taken "$next" && continue
            printf '%s\n' "$next"
            count=$((count - 1))
        done
        printf '%s\n' "$next" >"$directory/last"
    ) 8>"$directory/lock"
}

# check_port PORT: whether a server can be started there.
check_port() {
    if [[ ! $1 =~ ^[0-9]{1,5}$ ]] || (($1 < 1 || $1 > 65535)); then fail "not a port: $1"; fi
    ! port_answers "$1" || fail "port $1 is taken by another program"
}
