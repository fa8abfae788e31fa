# shellcheck shell=bash
# Sourced by run.sh: ends each container and waits until everything works again.

# end_each_container: each once as a crash, which the engine repairs by itself, and once by `docker kill`, after which the
# engine leaves it alone and an operator's `up -d` starts it again.
end_each_container() {
    local name
    for name in $(containers "${SERVERS[@]}" "${PROGRAMS[@]}"); do
        if can_crash "$name"; then end_container "$name" crash; fi
        end_container "$name" kill
    done
}

# A crash is SIGKILL to the container's first process, which only root of the engine's own machine can send.
can_crash() {
    local pid
    pid=$(docker inspect --format '{{.State.Pid}}' "$1")
    ((EUID == 0)) && [[ -r /proc/$pid/cgroup ]] && grep --quiet "$(docker inspect --format '{{.Id}}' "$1")" "/proc/$pid/cgroup"
}

end_container() {
    local name=$1 how=$2 before=$EPOCHREALTIME pid started
    started=$(docker inspect --format '{{.State.StartedAt}}' "$name")
    if [[ $how == crash ]]; then
        pid=$(docker inspect --format '{{.State.Pid}}' "$name")
        kill -s KILL "$pid"
        wait_until "$RECOVERY_TIMEOUT" "the engine restarts $name" has_restarted "$name" "$started"
    else
        docker kill "$name" >/dev/null
        compose up -d --no-build --scale worker=2 "${SERVERS[@]}" "${PROGRAMS[@]}"
    fi
    wait_until "$RECOVERY_TIMEOUT" "$name is healthy again" is_healthy "$name"
    # The receiver uses the dispatcher's network, which a new start has replaced.
    [[ $name != *dispatcher* ]] || docker restart --time 1 "$(containers receiver)" >/dev/null
    wait_until "$RECOVERY_TIMEOUT" 'all containers are healthy' all_healthy
    local seen
    seen=$(confirmed)
    wait_until "$RECOVERY_TIMEOUT" 'enquiries are confirmed again' confirmed_since "$((seen + 5))"
    say "$(printf '%-5s %-14s longest time without a confirmation: %s s' "$how" "${name#"$PROJECT"?}" "$(longest_pause "$before")")"
}

# has_restarted CONTAINER TIME: whether it runs and was started after that.
has_restarted() {
    local state
    state=$(docker inspect --format '{{.State.Running}} {{.State.StartedAt}}' "$1")
    [[ $state == true* && $state != "true $2" ]]
}

# longest_pause TIME: between two confirmations since then.
longest_pause() {
    awk -v since="$1" '$1 >= since { if (last && $1 - last > most) most = $1 - last; last = $1 }
        $1 < since { last = $1 } END { printf "%.1f", most }' "$WORK/confirmed"
}
