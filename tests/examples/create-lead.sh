#!/usr/bin/env bash
# Creates a lead: create-lead.sh ORDER
#
# ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: sent again, the same lead is
# answered and none is made. Prints the answer. Needs curl and openssl.

set -euo pipefail

: "${CONNECT_URL:?where Connect is, such as https://connect.example.com}" "${CONNECT_TENANT:?the slug of the agency}"
: "${CONNECT_KEY:?the prefix of the API key}" "${CONNECT_SECRET:?its secret}"
order=${1:?your id of the lead}

target=/api/v1/crm/connect/leads
body='{"contact":{"email":"cara@example.com","name":"Cara"},"externalId":"'$order'","destination":"Lisbon",
 "party":{"adults":2,"children":0},"message":"We would like to stay near the river."}'

answer=$(mktemp) headers=$(mktemp)
trap 'rm -f "$answer" "$headers"' EXIT

for attempt in 1 2 3 4 5; do
    # Of a records route the method and the path with its query are signed as well, as `v2`. Each attempt is signed anew.
    # (openssl takes the secret as an argument, which others on this machine can see in the list of processes.)
    time=$(date +%s)
    mac=$(printf '%s.POST.%s.%s' "$time" "$target" "$body" | openssl dgst -sha256 -hmac "$CONNECT_SECRET" -r | cut -d ' ' -f 1)
    status=$(curl --silent --show-error --max-time 30 --output "$answer" --dump-header "$headers" --write-out '%{http_code}' \
        --header 'Content-Type: application/json' \
        --header "X-Connect-Key: $CONNECT_KEY" \
        --header "X-Connect-Tenant: $CONNECT_TENANT" \
        --header "X-Connect-Signature: t=$time,v2=$mac" \
        --header "Idempotency-Key: $order" \
        --data-binary "$body" "$CONNECT_URL$target")
    # 503: perhaps it was done, perhaps not. With the same idempotency key it is done once.
    [[ $status == 503 && $attempt != 5 ]] || break
    sleep "$(sed -n 's/^retry-after: *\([0-9]*\).*/\1/Ip' "$headers")"
done

if [[ $status != 201 ]]; then
    echo "refused with $status: $(cat "$answer")" >&2
    exit 1
fi
cat "$answer"
echo
