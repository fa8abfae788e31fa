#!/usr/bin/env bash
# Runs all of Connect on this machine, with a demo tenant and a sample batch, until Ctrl-C: `make run`.
#
# PostgreSQL and RabbitMQ are private ones in .run, or those of DATABASE_URL and AMQP_URL. Everything that is kept is in
# .run: the servers' data, logs, the master key, the demo tenant's API key and the secret of its webhook subscription. A
# second run uses it again. The programs listen on their default ports, or on free ones where those are taken;
# CONNECT_INGEST_ADDR is used if it is set.
#
#   CONNECT_RUN_ONCE=1   stop after the sample (exit code 0 if all went well)

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

DIRECTORY=$ROOT/.run
STEPS=7
CTL=$TARGET/release/connectctl
# In the order in which requests pass them. They are stopped in this order, so that requests under way get their response.
PROGRAMS=(ingest worker dispatcher console receiver)
# Slightly longer than the programs' own limit (CONNECT_SHUTDOWN_TIMEOUT).
STOP_TIMEOUT=30
READY_TIMEOUT=60
WEBHOOK_TIMEOUT=30

declare -A pid_of=() metrics_of=()
# Host and port that the demo tenant's webhooks go to.
receiver=

main() {
    acquire_lock "$DIRECTORY" -n || fail "\`make run\` is running here already (see .run), stop it first"
    unset_sourced_environment
    start_servers "$DIRECTORY"
    trap stop_all EXIT
    step 'building, which takes some minutes the first time'
    # Only the programs: building tests and benchmark would take as long again.
    cargo build --release --bins -p ingest -p worker -p dispatcher -p admin 9>&-
    step 'applying schema migrations'
    prepare_environment
    "$CTL" migrate
    # Otherwise ingest and dispatcher log errors until the worker has declared the queues. If it fails, the programs say why.
    "$CTL" queue declare >/dev/null || true
    step 'creating the demo tenant, unless it exists'
    prepare_demo

    step 'starting the programs'
    local name
    for name in "${PROGRAMS[@]}"; do start_program "$name"; done
    for name in "${PROGRAMS[@]}"; do
        wait_ready "$name"
        say "connect-$name is ready"
    done
    step 'sending a sample'
    send_sample
    show_addresses
    [[ -z ${CONNECT_RUN_ONCE:-} ]] || exit 0

    # From here on, a signal to stop is a successful end.
    trap 'exit 0' HUP INT TERM
    say '' 'Running. Ctrl-C stops all of it.'
    keep_running
}

# ---- before the start ----

# Ignores variables of .run/environment that the terminal has sourced: they do not choose servers and addresses.
unset_sourced_environment() {
    [[ ${CONNECT_RUN_ENVIRONMENT:-} == "$DIRECTORY" ]] || return 0
    unset DATABASE_URL AMQP_URL CONNECT_MASTER_KEY CONNECT_MASTER_KEY_PREVIOUS CONNECT_INGEST_ADDR CONNECT_QUEUE_PREFIX
    unset CONNECT_CONSOLE_ADDR
    unset CONNECT_RUN_ENVIRONMENT
}

# write_private_file FILE: writes standard input to a file that only its owner may read.
write_private_file() {
    (umask 077 && cat >"$DIRECTORY/$1")
    chmod 600 "$DIRECTORY/$1"
}

prepare_environment() {
    if [[ -z ${CONNECT_MASTER_KEY:-} ]]; then
        [[ -s $DIRECTORY/master.key ]] || openssl rand -base64 32 | write_private_file master.key
        CONNECT_MASTER_KEY=$(cat "$DIRECTORY/master.key")
    fi
    CONNECT_INGEST_ADDR=${CONNECT_INGEST_ADDR:-$(free_address 8080 ingest)}
    CONNECT_CONSOLE_ADDR=${CONNECT_CONSOLE_ADDR:-$(free_address 8090 'the settings area')}
    metrics_of=(
        [ingest]=$(free_address 9101 "ingest's metrics")
        [worker]=$(free_address 9102 "worker's metrics")
        [dispatcher]=$(free_address 9103 "dispatcher's metrics")
        [console]=$(free_address 9104 "the settings area's metrics")
    )
    # People read the logs here.
    CONNECT_LOG=${CONNECT_LOG:-text}
    export CONNECT_MASTER_KEY CONNECT_INGEST_ADDR CONNECT_CONSOLE_ADDR CONNECT_LOG
    {
        echo "# Written by \`make run\`: settings of connectctl."
        echo 'export CONNECT_WEBHOOK_ALLOW_PRIVATE=true'
        printf 'export CONNECT_RUN_ENVIRONMENT=%q\n' "$DIRECTORY"
        local name
        for name in DATABASE_URL AMQP_URL CONNECT_MASTER_KEY CONNECT_MASTER_KEY_PREVIOUS CONNECT_INGEST_ADDR \
            CONNECT_QUEUE_PREFIX CONNECT_CONSOLE_ADDR; do
            [[ -z ${!name:-} ]] || printf 'export %s=%q\n' "$name" "${!name}"
        done
        printf "export PATH=%q:\$PATH\n" "$TARGET/release"
    } | write_private_file environment
}

# is_listening HOST:PORT: whether a program listens there.
is_listening() { (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }

# free_address PORT WHAT: the port if nothing listens there, else a free one.
free_address() {
    local port=$1
    if is_listening "127.0.0.1:$port"; then
        port=$("$SERVICES" free-port)
        say "port $1 is taken, $2 will be on $port" >&2
    fi
    printf '127.0.0.1:%s\n' "$port"
}

# is_listed KIND FIELD VALUE: whether the array that `connectctl KIND list` prints has such an element that
# was not revoked or removed.
is_listed() {
    local options=(--tenant demo)
    [[ $1 != tenant ]] || options=()
    "$CTL" "$1" list "${options[@]}" --json |
        jq --exit-status --arg field "$2" --arg value "$3" \
            'any(.[]; .[$field] == $value and .active != false and .revokedAt == null and .removedAt == null)' >/dev/null
}

prepare_demo() {
    is_listed tenant slug demo ||
        "$CTL" tenant create --slug demo --name 'Demo Travel' --discovery
    is_listed member email asha@demo.example ||
        "$CTL" member add --tenant demo --email asha@demo.example --name 'Asha Rao'
    is_listed member email ben@demo.example ||
        "$CTL" member add --tenant demo --email ben@demo.example --name 'Ben Okoye'

    # A key's secret is shown only when the key is created. If the secret is lost, or the database does not have the key,
    # a new key is needed.
    local prefix made
    prefix=$(jq -r .prefix "$DIRECTORY/demo.key" 2>/dev/null) || prefix=
    if [[ -z $prefix ]] || ! is_listed key prefix "$prefix"; then
        made=$("$CTL" key create --tenant demo --name 'Demo site' --origin demo-site --json \
            --scopes events:ingest,credit:write,clients:read,clients:write,leads:read,leads:write,webhooks:read)
        write_private_file demo.key <<<"$made"
        prefix=$(jq -r .prefix "$DIRECTORY/demo.key")
    fi

    prepare_subscription "$prefix"
}

# prepare_subscription PREFIX: the demo tenant's subscription, to the small receiver on this machine, so that no webhook
# leaves it. It names the demo key, so that the key can read its feed. It is used again, with a new secret, unless another
# program has taken the receiver's port meanwhile, or it names another key.
prepare_subscription() {
    local id url made
    id=$(jq -r .id "$DIRECTORY/demo.subscription" 2>/dev/null) || id=
    url=$(demo_subscriptions | jq -r --arg id "$id" --arg key "$1" 'select(.id == $id and .key == $key) | .url')
    if [[ -n $url ]]; then
        receiver=${url#http://}
        receiver=${receiver%%/*}
        if ! is_listening "$receiver"; then
            "$CTL" subscription resume "$id" --json >/dev/null
            # The secret may have been changed since, and cannot be read back.
            made=$("$CTL" subscription rotate-secret "$id" --json)
            write_private_file demo.subscription <<<"$made"
            return
        fi
    fi
    receiver=$(free_address 9200 'the receiver of webhooks')
    # Nothing receives, or could verify, webhooks of the other subscriptions.
    for id in $(demo_subscriptions | jq -r .id); do "$CTL" subscription remove "$id" --json >/dev/null; done
    made=$(CONNECT_WEBHOOK_ALLOW_PRIVATE=true "$CTL" subscription create --tenant demo --json \
        --url "http://$receiver/webhooks" --key "$1")
    write_private_file demo.subscription <<<"$made"
}

# Subscriptions that this script has created.
demo_subscriptions() {
    "$CTL" subscription list --tenant demo --json |
        jq --compact-output '.[] | select(.url | test("^http://127\\.0\\.0\\.1:[0-9]+/webhooks$"))'
}

# ---- the programs ----

# start_program NAME: in a session of its own, so that Ctrl-C reaches this script only, which stops the programs
# in order.
start_program() {
    # Escape sequences of colors would clutter a file.
    local settings=(NO_COLOR=1) arguments=()
    case $1 in
        receiver) arguments=("$receiver" --secret-file "$DIRECTORY/demo.subscription") ;;
        # The receiver is on this machine, and has no certificate.
        dispatcher) settings+=("CONNECT_METRICS_ADDR=${metrics_of[$1]}" CONNECT_WEBHOOK_ALLOW_PRIVATE=true) ;;
        console)
            settings+=("CONNECT_METRICS_ADDR=${metrics_of[$1]}" CONNECT_WEBHOOK_ALLOW_PRIVATE=true
                "CONNECT_CONSOLE_API_URL=http://$CONNECT_INGEST_ADDR")
            ;;
        *) settings+=("CONNECT_METRICS_ADDR=${metrics_of[$1]}") ;;
    esac
    env "${settings[@]}" setsid "$TARGET/release/connect-$1" "${arguments[@]}" \
        </dev/null >"$DIRECTORY/$1.log" 2>&1 9>&- &
    pid_of[$1]=$!
}

# is_ready NAME
is_ready() {
    if [[ $1 == receiver ]]; then
        is_listening "$receiver"
    else
        curl --silent --fail --output /dev/null --max-time 2 "http://${metrics_of[$1]}/readyz"
    fi
}

wait_ready() {
    local deadline=$((SECONDS + READY_TIMEOUT)) says=
    until is_ready "$1"; do
        kill -0 "${pid_of[$1]}" 2>/dev/null || fail_with_log "$1" "connect-$1 ended while starting"
        if ((SECONDS >= deadline)); then
            [[ $1 == receiver ]] || says=": $(curl -sS --max-time 2 "http://${metrics_of[$1]}/readyz" 2>&1)"
            fail_with_log "$1" "connect-$1 is not ready after $READY_TIMEOUT s$says"
        fi
        sleep 0.1
    done
}

# fail_with_log NAME MESSAGE: prints the end of the program's log and exits.
fail_with_log() {
    show_log "$1"
    fail "$2, its log is .run/$1.log"
}

show_log() {
    say "the end of .run/$1.log:" >&2
    tail -n 25 "$DIRECTORY/$1.log" | sed 's/^/    /' >&2
}

keep_running() {
    local ended='' status=0 name
    # Bash would report a killed program in its own words.
    wait -n -p ended "${pid_of[@]}" 2>/dev/null || status=$?
    for name in "${PROGRAMS[@]}"; do
        [[ ${pid_of[$name]} != "$ended" ]] || fail_with_log "$name" "connect-$name ended by itself with status $status"
    done
}

stop_all() {
    ignore_signals
    local name pid deadline
    ((${#pid_of[@]} == 0)) || say '' 'stopping'
    for name in "${PROGRAMS[@]}"; do
        pid=${pid_of[$name]:-}
        if [[ -z $pid ]] || ! kill -s TERM "$pid" 2>/dev/null; then continue; fi
        deadline=$((SECONDS + STOP_TIMEOUT))
        while kill -0 "$pid" 2>/dev/null && ((SECONDS < deadline)); do sleep 0.05; done
        kill -s KILL "$pid" 2>/dev/null || true
        wait "$pid" || say "connect-$name ended with status $?, its log is .run/$name.log"
    done
    stop_servers
}

# ---- the sample ----

sample_batch() {
    local id now start end
    id=$(cat /proc/sys/kernel/random/uuid)
    now=$(date -u +%FT%TZ)
    start=$(date -u -d '+90 days' +%F)
    end=$(date -u -d '+100 days' +%F)
    cat <<JSON
{
  "events": [
    {
      "specVersion": "1.0",
      "eventId": "sample-enquiry-$id",
      "eventType": "enquiry.submitted",
      "occurredAt": "$now",
      "tenant": "demo",
      "origin": "demo-site",
      "actor": {"type": "contact", "email": "mira.sen@example.com", "phone": "+44 20 7946 0018", "name": "Mira Sen"},
      "payload": {
        "externalLeadId": "site-$id",
        "title": "Ten days in Kerala",
        "destination": "Kerala, India",
        "travelDates": {"start": "$start", "end": "$end"},
        "party": {"adults": 2, "children": 1, "childAges": [7], "rooms": 1},
        "budget": {"amount": 4500, "currency": "GBP"},
        "message": "We would like two nights on a houseboat.",
        "attribution": {"source": "newsletter", "medium": "email", "campaign": "monsoon"}
      }
    },
    {
      "specVersion": "1.0",
      "eventId": "sample-contact-$id",
      "eventType": "contact.identified",
      "occurredAt": "$now",
      "tenant": "demo",
      "origin": "demo-site",
      "actor": {"type": "contact", "email": "jonas.weber@example.com", "externalId": "site-user-77", "name": "Jonas Weber"},
      "payload": {"page": "/destinations/kerala"}
    }
  ]
}
JSON
}

# Signed as every partner does it: over the bytes that are sent, with the key's secret.
send_sample() {
    local url=http://$CONNECT_INGEST_ADDR/api/v1/crm/connect/events body=$DIRECTORY/sample.json
    local response=$DIRECTORY/sample-result.json time signature status client since
    # On one line, because the timeline shows a payload as it was sent.
    sample_batch | jq --compact-output . >"$body"
    time=$(date +%s)
    signature=$({ printf '%s.' "$time" && cat "$body"; } |
        openssl dgst -sha256 -hmac "$(jq -r .secret "$DIRECTORY/demo.key")" | sed 's/^.* //')
    say '' "sending .run/sample.json to $url"
    since=$(date -u +%FT%T.%3NZ)
    status=$(curl --silent --show-error --max-time 30 --output "$response" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $(jq -r .prefix "$DIRECTORY/demo.key")" \
        --header 'X-Connect-Tenant: demo' \
        --header "X-Connect-Signature: t=$time,v1=$signature" \
        --data-binary @"$body" "$url") || fail 'the sample could not be sent'
    say "status code: $status"
    jq . "$response" 2>/dev/null || cat "$response"
    if [[ $status != 200 ]] || ! jq --exit-status '.accepted == 2 and .failed == 0' "$response" >/dev/null; then
        # One of the two logs says what was refused.
        show_log ingest
        show_log worker
        fail 'the sample was not accepted'
    fi

    client=$(jq -r '.results[0].clientId' "$response")
    say '' "timeline of the enquiry's client:"
    "$CTL" timeline --tenant demo --client "$client"
    show_webhook "$since"
}

# show_webhook TIME: the enquiry was assigned to an advisor, which causes a webhook. Prints the receiver's line about the
# webhook that was created since TIME.
show_webhook() {
    local deadline=$((SECONDS + WEBHOOK_TIMEOUT)) id
    say '' "the webhook that it caused, as the receiver on $receiver saw it:"
    while ((SECONDS < deadline)); do
        for id in $(assigned_since "$1"); do
            if grep --fixed-strings "delivery $id: verified" "$DIRECTORY/receiver.log"; then return; fi
        done
        sleep 0.1
    done
    show_log dispatcher
    fail_with_log receiver "no webhook arrived in $WEBHOOK_TIMEOUT s"
}

# assigned_since TIME: the deliveries of lead.assigned that were created since.
assigned_since() {
    "$CTL" delivery list --tenant demo --limit 100 --json 2>/dev/null | jq -r --arg since "$1" \
        '.[] | select(.eventType == "lead.assigned" and .createdAt >= $since) | .id'
}

# Hides passwords of URLs that were given by variables; the private broker's password is public.
without_password() { printf '%s\n' "$1" | sed '/:guest@127/!s,//\([^:/@]*\):[^@/]*@,//\1:***@,'; }

sign_in_link() { "$CTL" console login --role operator --json | jq -r .url; }

show_addresses() {
    local base=http://$CONNECT_INGEST_ADDR/api/v1/crm/connect
    cat <<TEXT

  events route    $base/events
  API reference   http://$CONNECT_INGEST_ADDR/docs
  demo tenant     slug demo; key and secret in .run/demo.key, for X-Connect-Key and signatures
  webhooks        go to http://$receiver/webhooks, which verifies them and prints a line for each to .run/receiver.log
  metrics         http://${metrics_of[ingest]}/metrics (ingest), http://${metrics_of[worker]}/metrics (worker),
                  http://${metrics_of[dispatcher]}/metrics (dispatcher), http://${metrics_of[console]}/metrics (settings area);
                  there also /readyz and /livez
  database        $(without_password "$DATABASE_URL")
  broker          $(without_password "$AMQP_URL")
  logs            .run/ingest.log, .run/worker.log, .run/dispatcher.log, .run/console.log, .run/receiver.log,
                  .run/postgres.log, .run/rabbitmq.log
  connectctl      source .run/environment && connectctl pipeline --tenant demo
  settings area   $(sign_in_link)
                  signs in as operator, once, within five minutes; another link: connectctl console login --role operator
TEXT
}

main "$@"
