# shellcheck shell=bash
# Sourced by run.sh: the Compose project of a run, its load, and waiting.

PROJECT=connect-test-$$
WORK=${CARGO_TARGET_DIR:-$ROOT/target}/images/$PROJECT
LOAD=
# Longest time for a command of Compose or in a container, in seconds.
COMMAND_TIMEOUT=240
# Seconds that the last wait_until or `up` took.
SINCE=0

say() { printf '%s\n' "$@"; }

fail() {
    printf '%s: %s\n' "test-containers" "$*" >&2
    exit 1
}

step() {
    STEP=$((${STEP:-0} + 1))
    # shellcheck disable=SC2153  # of run.sh
    say "$STEP of $STEPS ($SECONDS s): $1"
}

prepare() {
    local tool
    for tool in docker jq python3; do command -v "$tool" >/dev/null || fail "$tool is missing"; done
    docker version >/dev/null 2>&1 || fail "Docker's engine does not respond; is it running, and may this user use it?"
    if docker compose version >/dev/null 2>&1; then
        COMPOSE=(docker compose)
    elif command -v docker-compose >/dev/null; then
        COMPOSE=(docker-compose)
    else
        fail 'neither docker compose nor docker-compose is installed'
    fi
    mkdir -p "$WORK"
    : >"$WORK/confirmed"
    : >"$WORK/empty.env"
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    # Settings of the person who runs the test must not change it.
    unset CONNECT_SETTINGS POSTGRES_PASSWORD RABBITMQ_PASSWORD INGEST_PASSWORD WORKER_PASSWORD DISPATCHER_PASSWORD CONSOLE_PASSWORD
    unset CONSOLE_URL API_URL RECEIVER_SECRET COMPOSE_PROJECT_NAME COMPOSE_FILE
    take_ports
    CONNECT_MASTER_KEY=$(head -c 32 /dev/urandom | base64)
    export CONNECT_MASTER_KEY
}

# Free ports for what compose.yaml publishes. The engine chooses those of the copies of workers and dispatchers, which nobody asks.
take_ports() {
    local ports
    mapfile -t ports < <("$ROOT/ops/local/services.sh" free-port 8)
    export POSTGRES_PORT=${ports[0]} RABBITMQ_PORT=${ports[1]} INGEST_PORT=${ports[2]} INGEST_METRICS_PORT=${ports[3]}
    export PROMETHEUS_PORT=${ports[4]} GRAFANA_PORT=${ports[5]}
    export CONSOLE_PORT=${ports[6]} CONSOLE_METRICS_PORT=${ports[7]} CONSOLE_URL=http://127.0.0.1:${ports[6]}
    export WORKER_METRICS_PORTS='' DISPATCHER_METRICS_PORTS=''
}

# compose ARGUMENT...: its progress goes to a log, its errors as well; the end of both is printed by a failed run.
compose() { compose_quietly "$@" >>"$WORK/compose.log"; }

compose_quietly() {
    timeout --foreground "$COMMAND_TIMEOUT" "${COMPOSE[@]}" --project-name "$PROJECT" --project-directory "$ROOT" --env-file "$WORK/empty.env" \
        --file "$ROOT/compose.yaml" --file "$HERE/compose.yaml" "$@" 2>>"$WORK/compose.log" </dev/null
}

# connectctl in a container of its own, as the runbook has it.
ctl() { compose_quietly run --rm --no-deps -T -e CONNECT_WEBHOOK_ALLOW_PRIVATE=true migrate connectctl "$@"; }

# containers SERVICE...: the names of their containers, also of those that have ended.
containers() {
    local service
    for service in "$@"; do
        docker ps --all --filter "label=com.docker.compose.project=$PROJECT" \
            --filter "label=com.docker.compose.service=$service" --filter label=com.docker.compose.oneoff=False --format '{{.Names}}' | sort
    done
}

running() {
    docker ps --filter "label=com.docker.compose.project=$PROJECT" --format '{{.Names}}' | sort | sed "s/^${PROJECT}[-_]//" | tr '\n' ' '
}

SERVERS=(postgres rabbitmq)
PROGRAMS=(ingest worker dispatcher console)

# up TIMEOUT [ARGUMENT...]: starts servers and programs, and waits until all are healthy.
up() {
    local limit=$1
    shift
    (($# > 0)) || set -- "${SERVERS[@]}" "${PROGRAMS[@]}"
    local begun=$SECONDS
    compose up -d --no-build "$@"
    wait_until "$limit" 'all containers are healthy' all_healthy
    SINCE=$((SECONDS - begun))
}

all_healthy() {
    local name
    for name in $(containers "${SERVERS[@]}" "${PROGRAMS[@]}"); do is_healthy "$name" || return 1; done
}

is_healthy() { [[ $(docker inspect --format '{{.State.Running}} {{.State.Health.Status}}' "$1" 2>/dev/null) == 'true healthy' ]]; }

# wait_until SECONDS WHAT COMMAND...: repeats the command until it succeeds.
wait_until() {
    local begun=$SECONDS limit=$1 what=$2
    shift 2
    until "$@" 2>/dev/null; do
        ((SECONDS - begun < limit)) || fail "not within $limit s: $what"
        [[ -z $LOAD ]] || kill -0 "$LOAD" 2>/dev/null || fail "the load generator has ended: $(tail -n 1 "$WORK/load.log")"
        sleep 0.5
    done
    # shellcheck disable=SC2034  # for run.sh
    SINCE=$((SECONDS - begun))
}

sql() { timeout --foreground "$COMMAND_TIMEOUT" docker exec "$(containers postgres)" psql --no-psqlrc --tuples-only --no-align --username connect --dbname connect --command "$1"; }

receiver_log() { docker logs "$(containers receiver)" 2>&1; }

# ---- load ----

start_load() {
    python3 "$HERE/load.py" "http://127.0.0.1:$INGEST_PORT/api/v1/crm/connect/events" "$WORK/key.json" "$WORK/confirmed" \
        >>"$WORK/load.log" 2>&1 </dev/null &
    LOAD=$!
}

# The enquiry under way is sent until it is confirmed.
stop_load() {
    local load=$LOAD
    LOAD=
    kill -s TERM "$load"
    wait "$load" || fail "the load generator has failed: $(tail -n 1 "$WORK/load.log")"
}

confirmed() { wc -l <"$WORK/confirmed"; }

# confirmed_since COUNT: whether more enquiries have been confirmed than that.
confirmed_since() { (($(confirmed) > $1)); }

# ---- clean-up ----

clean_up() {
    local status=$?
    trap '' HUP INT TERM PIPE
    set +eu
    [[ -z $LOAD ]] || kill -s KILL "$LOAD" 2>/dev/null
    if ((status != 0)); then show_failure; fi
    compose --profile receiver --profile monitoring down --volumes --remove-orphans --timeout 5
    # What Compose does not find any more, such as a container of `run` that was interrupted.
    docker ps --all --quiet --filter "label=com.docker.compose.project=$PROJECT" | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
    docker rm --force "$PROJECT-check" >/dev/null 2>&1
    ((status != 0)) || rm -rf "$WORK"
}

show_failure() {
    local name
    for name in $(containers "${SERVERS[@]}" "${PROGRAMS[@]}" broker-users migrate database-users receiver prometheus); do
        docker logs "$name" >"$WORK/$name.log" 2>&1
    done
    compose_quietly --profile receiver --profile monitoring ps >&2
    printf 'failed after %s s; the logs of all containers are in %s\n' "$SECONDS" "$WORK" >&2
}
