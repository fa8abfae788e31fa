"""Checks Prometheus and the dashboard in containers: monitoring.py PROMETHEUS_URL WORKERS [GRAFANA_URL]

Waits until Prometheus scrapes every copy of the programs and until the dashboard's queries have data, prints how many have, and
fails if a query is refused. With Grafana, the dashboard must be there and its data source must reach Prometheus.
"""

import json
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

PROMETHEUS, WORKERS = sys.argv[1], int(sys.argv[2])
GRAFANA = sys.argv[3] if len(sys.argv) > 3 else None
DASHBOARD = pathlib.Path(__file__).resolve().parents[2] / "grafana" / "connect.json"
EXPECTED = {"connect-ingest": 1, "connect-worker": WORKERS, "connect-dispatcher": 1, "connect-console": 1}
# A scrape takes place every 15 seconds, and a rate needs two.
DEADLINE = time.monotonic() + 120


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def until(what, check):
    """Repeats a check, which gives None or its result, until the deadline."""
    why = None
    while time.monotonic() < DEADLINE:
        try:
            found, why = check()
        except (OSError, ValueError, KeyError) as error:
            found, why = None, error
        if found is not None:
            return found
        time.sleep(1)
    sys.exit(f"{what}: {why}")


def targets():
    up = dict.fromkeys(EXPECTED, 0)
    for target in get(f"{PROMETHEUS}/api/v1/targets")["data"]["activeTargets"]:
        up[target["labels"]["job"]] += target["health"] == "up"
    return (up if up == EXPECTED else None), f"scraped are {up}, expected {EXPECTED}"


def value(expression):
    query = urllib.parse.urlencode({"query": expression.replace("$__rate_interval", "1m")})
    answer = get(f"{PROMETHEUS}/api/v1/query?{query}")
    return [sample for sample in answer["data"]["result"] if sample["value"][1] != "NaN"]


def panels():
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def dashboard():
    silent = [title for title, expression in panels() if not value(expression.replace(" or vector(0)", ""))]
    total = sum(1 for _ in panels())
    enough = len(silent) <= total // 2 and not value("absent(connect:queue_consumers:max)")
    return ((total - len(silent), total) if enough else None), f"no data in {silent}"


def rules():
    groups = get(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    bad = [rule["name"] for rule in found if rule["health"] == "err"]
    if bad:
        sys.exit(f"rules fail: {bad}")
    return sum(rule["type"] == "alerting" for rule in found)


def grafana():
    health = get(f"{GRAFANA}/api/health")
    uid = next(found["uid"] for found in get(f"{GRAFANA}/api/search?query=Connect") if found["type"] == "dash-db")
    shown = get(f"{GRAFANA}/api/dashboards/uid/{uid}")["dashboard"]["title"]
    query = urllib.parse.urlencode({"query": "count(up == 1)"})
    answer = get(f"{GRAFANA}/api/datasources/proxy/uid/prometheus/api/v1/query?{query}")
    return (f"Grafana {health['version']} shows {shown}" if answer["status"] == "success" else None), answer


up = until("Prometheus does not scrape every program", targets)
print(f"Prometheus scrapes {', '.join(f'{count} {job}' for job, count in up.items())}")
answered, total = until("the dashboard has no data", dashboard)
print(f"{answered} of {total} queries of the dashboard have data, {rules()} alerts are loaded")
if GRAFANA:
    print(until("Grafana does not show the dashboard", grafana))
