#!/usr/bin/env python3
"""Creates a lead: create-lead.py ORDER

ORDER is your own id of it, and becomes the idempotency key: sent again, the same lead is answered and none is made. Prints
the answer. Needs nothing but Python.
"""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL, TENANT = os.environ["CONNECT_URL"], os.environ["CONNECT_TENANT"]
KEY, SECRET = os.environ["CONNECT_KEY"], os.environ["CONNECT_SECRET"]


def call(method, target, body=b"", **headers):
    """One attempt at a records route: status, headers, body of the answer."""
    # The method and the path with its query are signed as well, as `v2`; without a body, an empty one.
    now = str(int(time.time()))
    signed = f"{now}.{method}.{target}.".encode() + body
    mac = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    request = urllib.request.Request(URL + target, data=body or None, method=method, headers={
        "Content-Type": "application/json",
        "X-Connect-Key": KEY,
        "X-Connect-Tenant": TENANT,
        "X-Connect-Signature": f"t={now},v2={mac}",
        **headers,
    })
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers, refused.read().decode()


def main():
    order = sys.argv[1]
    body = json.dumps({
        "contact": {"email": "cara@example.com", "name": "Cara"},
        "externalId": order,
        "destination": "Lisbon",
        "party": {"adults": 2, "children": 0},
        "message": "We would like to stay near the river.",
    }).encode()
    for _ in range(5):
        status, headers, answer = call("POST", "/api/v1/crm/connect/leads", body, **{"Idempotency-Key": order})
        if status != 503:
            break
        # Perhaps it was done, perhaps not. With the same idempotency key it is done once.
        time.sleep(int(headers["Retry-After"]))
    if status != 201:
        sys.exit(f"refused with {status}: {answer}")
    print(answer)


if __name__ == "__main__":
    main()
