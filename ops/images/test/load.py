"""Sends enquiries, one at a time, until SIGTERM: load.py URL KEY_FILE CONFIRMED_FILE

Each enquiry is sent again, under the same eventId, until it is confirmed. A line for each confirmed one goes to the file: the
time in seconds, then the event's id. An unexpected response ends the program with exit code 1.
"""

import hashlib
import hmac
import http.client
import json
import signal
import sys
import time
import urllib.error
import urllib.request
import uuid
from datetime import datetime, timezone

URL, KEY_FILE, CONFIRMED = sys.argv[1:]
# Enough to have requests under way at any moment, and few enough for the machine's other work. Seconds.
PAUSE = 0.05
# What a caller must expect while a container is killed: nobody listens, the proxy of the port has nobody behind it,
# or 503 with Retry-After.
RETRIED = (0, 500, 502, 503, 504)


def enquiry():
    name = uuid.uuid4().hex
    return name, json.dumps({"events": [{
        "specVersion": "1.0",
        "eventId": name,
        "eventType": "enquiry.submitted",
        "occurredAt": datetime.now(timezone.utc).isoformat(),
        "tenant": "demo",
        "origin": "demo-site",
        "actor": {"type": "contact", "email": f"{name}@example.com", "name": "Mira Sen"},
        "payload": {"externalLeadId": name, "title": "Ten days in Kerala", "destination": "Kerala, India"},
    }]}).encode()


def send(key, body):
    """One attempt: status code and body, or 0 and the reason."""
    now = str(int(time.time()))
    mac = hmac.new(key["secret"].encode(), now.encode() + b"." + body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(URL, data=body, method="POST", headers={
        "Content-Type": "application/json",
        "X-Connect-Key": key["prefix"],
        "X-Connect-Tenant": "demo",
        "X-Connect-Signature": f"t={now},v1={mac}",
    })
    try:
        with urllib.request.urlopen(request, timeout=15) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()
    except (OSError, http.client.HTTPException) as lost:
        return 0, str(lost)


def main():
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    with open(KEY_FILE) as file:
        key = json.load(file)
    with open(CONFIRMED, "a", buffering=1) as confirmed:
        while not stopping:
            name, body = enquiry()
            while True:
                status, text = send(key, body)
                if status == 200:
                    break
                if status not in RETRIED:
                    sys.exit(f"unexpected response {status}: {text}")
                # A second attempt in the same second would have the same signature, which is good for one request.
                time.sleep(1)
            result = json.loads(text)["results"][0]
            if result["status"] not in ("accepted", "duplicate"):
                sys.exit(f"unexpected result: {result}")
            confirmed.write(f"{time.time():.3f} {name}\n")
            time.sleep(PAUSE)


main()
