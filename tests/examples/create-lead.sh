#!/usr/bin/env bash
# Creates a lead: create-lead.sh ORDER
#
# ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: when it is sent
# again, the response is the same lead. Prints the response. Needs bash 3.2 or newer, curl and openssl.

set -euo pipefail
export LC_ALL=C

wrong=
[[ ${1-} =~ ^[A-Za-z0-9-]{1,80}$ ]] || wrong+=' ORDER (letters, digits and dashes, at most 80)'
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

response=$(mktemp) headers=$(mktemp) failure=$(mktemp)
trap 'rm -f "$response" "$headers" "$failure"' EXIT

# One attempt: sets `status`, 000 when there was no response.
create() {
    : >"$headers"
    # Of a records route the method and the path with its query are signed as well, as `v2`. (openssl takes the secret as
    # an argument, which others on this machine can see in the list of processes.)
    local time mac
    time=$(date +%s)
    mac=$(printf '%s.POST.%s.%s' "$time" "$target" "$body" | openssl dgst -sha256 -hmac "$CONNECT_SECRET" -r | cut -d ' ' -f 1)
    status=$(curl --silent --show-error --max-time 30 --output "$response" --dump-header "$headers" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $CONNECT_KEY" \
        --header "X-Connect-Tenant: $CONNECT_TENANT" \
        --header "X-Connect-Signature: t=$time,v2=$mac" \
        --header "Idempotency-Key: $order" \
        --data-binary "$body" "${CONNECT_URL%/}$target" 2>"$failure") || status=000
}

# A header of the response, by its name in lower case.
header() { tr -d '\r' <"$headers" | awk -F ': *' -v name="$1" 'tolower($1) == name { print $2 }'; }

# Whether to try again. 503 or no response: the lead may have been created. With the same idempotency key that happens once.
# lead_create_failed: nothing was stored.
is_retryable() {
    case $status in
    503 | 000) true ;;
    500) grep -q '"lead_create_failed"' "$response" ;;
    *) false ;;
    esac
}

for attempt in 1 2 3 4 5; do
    # Each attempt is signed again.
    create
    is_retryable || break
    [[ $attempt != 5 ]] || break
    wait=$(header retry-after)
    [[ $wait =~ ^[1-9][0-9]*$ ]] || wait=1
    sleep "$wait"
done

case $status in
201) cat "$response" && echo ;;
000)
    echo "no response: $(cat "$failure")" >&2
    exit 1
    ;;
*)
    echo "refused with $status, X-Request-Id $(header x-request-id): $(cat "$response")" >&2
    exit 1
    ;;
esac
