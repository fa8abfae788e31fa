#!/usr/bin/env bash
# Creates a lead: create-lead.sh ORDER
#
# ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: sent again, the same lead is
# answered and none is made. Prints the answer. Needs bash 3.2 or newer, curl and openssl.

set -euo pipefail
export LC_ALL=C

wrong=
[[ ${1-} =~ ^[A-Za-z0-9-]{1,80}$ ]] || wrong+=' ORDER'
for name in CONNECT_URL CONNECT_TENANT CONNECT_KEY CONNECT_SECRET; do
    [[ -n ${!name-} ]] || wrong+=" $name"
done
if [[ -n $wrong ]]; then
    echo "usage: create-lead.sh ORDER, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set; missing or wrong:$wrong" >&2
    exit 2
fi

order=$1
target=/api/v1/crm/connect/leads
body='{"contact":{"email":"cara@example.com","name":"Cara"},"externalId":"'$order'","destination":"Lisbon",
 "party":{"adults":2,"children":0},"message":"We would like to stay near the river."}'

answer=$(mktemp) headers=$(mktemp) failure=$(mktemp)
trap 'rm -f "$answer" "$headers" "$failure"' EXIT

# One attempt: sets `status`, 000 when no answer came.
create() {
    : >"$headers"
    # Of a records route the method and the path with its query are signed as well, as `v2`. (openssl takes the secret as
    # an argument, which others on this machine can see in the list of processes.)
    local time mac
    time=$(date +%s)
    mac=$(printf '%s.POST.%s.%s' "$time" "$target" "$body" | openssl dgst -sha256 -hmac "$CONNECT_SECRET" -r | cut -d ' ' -f 1)
    status=$(curl --silent --show-error --max-time 30 --output "$answer" --dump-header "$headers" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $CONNECT_KEY" \
        --header "X-Connect-Tenant: $CONNECT_TENANT" \
        --header "X-Connect-Signature: t=$time,v2=$mac" \
        --header "Idempotency-Key: $order" \
        --data-binary "$body" "${CONNECT_URL%/}$target" 2>"$failure") || status=000
}

# A header of the answer, by its name in lower case.
header() { tr -d '\r' <"$headers" | awk -F ': *' -v name="$1" 'tolower($1) == name { print $2 }'; }

# Whether to try again. 503 or no answer: perhaps it was done, perhaps not. With the same idempotency key it is done once.
# lead_create_failed: nothing was kept.
may_pass_later() {
    case $status in
    503 | 000) true ;;
    500) grep -q '"lead_create_failed"' "$answer" ;;
    *) false ;;
    esac
}

for attempt in 1 2 3 4 5; do
    # Each attempt is signed anew.
    create
    may_pass_later || break
    [[ $attempt != 5 ]] || break
    wait=$(header retry-after)
    [[ $wait =~ ^[1-9][0-9]*$ ]] || wait=1
    sleep "$wait"
done

case $status in
201) cat "$answer" && echo ;;
000)
    echo "no answer: $(cat "$failure")" >&2
    exit 1
    ;;
*)
    echo "refused with $status, X-Request-Id $(header x-request-id): $(cat "$answer")" >&2
    exit 1
    ;;
esac
