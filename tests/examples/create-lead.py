#!/usr/bin/env python3
"""Creates a lead: create-lead.py ORDER

ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: when it is sent
again, the response is the same lead. Prints the response. Needs nothing but Python 3.9 or newer.
"""

import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request

SETTINGS = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"]
URL, TENANT, KEY, SECRET = [os.environ.get(name, "") for name in SETTINGS]
ATTEMPTS = 5


def call(method, target, body=b"", **headers):
    """One attempt at a records route: status, headers, body of the response. Status 0 and the reason when there was none."""
    # The method and the path with its query are signed as well, as `v2`; without a body, an empty one.
    now = str(int(time.time()))
    signed = f"{now}.{method}.{target}.".encode() + body
    mac = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    request = urllib.request.Request(URL.rstrip("/") + target, data=body or None, method=method, headers={
        "Content-Type": "application/json",
        "X-Connect-Key": KEY,
        "X-Connect-Tenant": TENANT,
        "X-Connect-Signature": f"t={now},v2={mac}",
        **headers,
    })
    try:
        try:
            response = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as refused:
            response = refused
        with response:
            return response.status, response.headers, response.read().decode()
    except (OSError, http.client.HTTPException, ValueError) as lost:
        return 0, {}, str(lost)


def is_retryable(status, response):
    """Whether to try again. 503 or no response: the lead may have been created. With the same idempotency key that happens
    once. lead_create_failed: nothing was stored."""
    return status in (0, 503) or status == 500 and '"lead_create_failed"' in response


def wait(headers):
    """Seconds until the next attempt: what the response asks for, else one."""
    asked = headers.get("Retry-After") or ""
    return max(1, int(asked)) if re.fullmatch("[0-9]+", asked) else 1


def main():
    order = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = [] if re.fullmatch("[A-Za-z0-9-]{1,80}", order) else ["ORDER (letters, digits and dashes, at most 80)"]
    wrong += [name for name in SETTINGS if not os.environ.get(name)]
    if wrong:
        print("usage: create-lead.py ORDER, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set;",
              "missing or wrong:", *wrong, file=sys.stderr)
        sys.exit(2)

    body = json.dumps({
        "contact": {"email": "cara@example.com", "name": "Cara"},
        "externalId": order,
        "destination": "Lisbon",
        "party": {"adults": 2, "children": 0},
        "message": "We would like to stay near the river.",
    }).encode()
    for attempt in range(1, ATTEMPTS + 1):
        # Each attempt is signed again.
        status, headers, response = call("POST", "/api/v1/crm/connect/leads", body, **{"Idempotency-Key": order})
        if not is_retryable(status, response) or attempt == ATTEMPTS:
            break
        time.sleep(wait(headers))
    if status == 0:
        sys.exit(f"no response: {response}")
    if status != 201:
        sys.exit(f"refused with {status}, X-Request-Id {headers.get('X-Request-Id')}: {response}")
    print(response)


if __name__ == "__main__":
    main()
