#!/usr/bin/env python3
"""Reads the webhooks of your key's subscription: read-feed.py [AFTER]

AFTER is the number of the last one that you have, 0 without it. Prints a line for each later one, its number and its
envelope, and ends at the end of the feed. Run it again with the last number. Needs nothing but Python 3.9 or newer.
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
LIMIT, ATTEMPTS = 100, 5


def get(target):
    """One attempt at a read: status, headers, body of the response. Status 0 and the reason when there was none."""
    now = str(int(time.time()))
    mac = hmac.new(SECRET.encode(), f"{now}.GET.{target}.".encode(), hashlib.sha256).hexdigest()
    request = urllib.request.Request(URL.rstrip("/") + target, headers={
        "X-Connect-Key": KEY,
        "X-Connect-Tenant": TENANT,
        "X-Connect-Signature": f"t={now},v2={mac}",
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


def page(after):
    """The deliveries after a number. A 429, a 503 and no response at all are tried again."""
    for attempt in range(1, ATTEMPTS + 1):
        # A signature is good for one request: the attempt makes it another one.
        target = f"/api/v1/crm/connect/webhooks?after={after}&limit={LIMIT}&attempt={os.getpid()}-{attempt}"
        status, headers, response = get(target)
        if status not in (0, 429, 503) or attempt == ATTEMPTS:
            break
        asked = headers.get("Retry-After") or ""
        time.sleep(max(1, int(asked)) if re.fullmatch("[0-9]+", asked) else 1)
    if status == 0:
        sys.exit(f"no response: {response}")
    if status != 200:
        sys.exit(f"refused with {status}, X-Request-Id {headers.get('X-Request-Id')}: {response}")
    return json.loads(response)["data"]


def main():
    after = sys.argv[1] if len(sys.argv) > 1 else "0"
    wrong = [] if re.fullmatch("[0-9]{1,18}", after) else ["AFTER"]
    wrong += [name for name in SETTINGS if not os.environ.get(name)]
    if wrong:
        print("usage: read-feed.py [AFTER], with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set;",
              "missing or wrong:", *wrong, file=sys.stderr)
        sys.exit(2)
    while True:
        deliveries = page(after)
        for delivery in deliveries:
            if delivery["number"] != int(after) + 1:
                print(f"{int(after) + 1} to {delivery['number'] - 1} are not stored any more", file=sys.stderr)
            # Store what you make of the event together with the number. An envelope may be null, see docs/webhooks.md.
            after = str(delivery["number"])
            print(after, json.dumps(delivery["envelope"]))
        if len(deliveries) < LIMIT:
            return


if __name__ == "__main__":
    main()
