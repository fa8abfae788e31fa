#!/usr/bin/env python3
"""Draws the dashboard as an SVG, from its own queries on a running Prometheus. Standard library only.

    draw.py --prometheus http://127.0.0.1:9090 --minutes 12 > ops/grafana/connect.svg

The picture is no screenshot of Grafana: the script takes titles, positions, units and queries from connect.json and draws
the same lines, so that it runs on any machine. It draws the first line of panels of each row.
"""

import argparse
import json
import math
import sys
import time
import urllib.parse
import urllib.request
from html import escape
from pathlib import Path

COLUMN, UNIT, GAP = 50, 30, 8  # pixels of a column and of a unit of height on the dashboard's grid, and between panels
INK, FAINT, PANEL, PAGE = "#d0d3dc", "#8e919b", "#181b1f", "#0f1014"
COLORS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#ffa6b0", "#96d98d", "#ca95e5"]
# Colors that mean something in a `stat`'s thresholds.
THRESHOLD_COLORS = {"green": "#56a64b", "orange": "#ff9830", "red": "#e02f44", "blue": "#3274d9"}
LEGEND_LETTERS = 62


class Prometheus:
    """Queries over one range of time."""

    def __init__(self, url, minutes, rate):
        self.url, self.rate = url.rstrip("/"), rate
        self.end = time.time()
        self.start = self.end - minutes * 60
        self.step = max(1, round(minutes * 60 / 120))

    def series(self, expression):
        """[(labels, [(time, value), ..]), ..]; without values that are not finite."""
        query = urllib.parse.urlencode({
            "query": expression.replace("$__rate_interval", self.rate),
            "start": self.start, "end": self.end, "step": self.step,
        })
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{query}", timeout=30) as response:
            result = json.load(response)["data"]["result"]
        numbers = [(one["metric"], [(t, float(v)) for t, v in one["values"]]) for one in result]
        return [(labels, [(t, v) for t, v in points if math.isfinite(v)]) for labels, points in numbers]


def legend(form, labels):
    """Grafana's legend: the form with the labels in place."""
    for name in set(labels) | {"status", "reason"}:
        form = form.replace("{{" + name + "}}", labels.get(name, ""))
    return form.strip() or labels.get("__name__", "")


def number(value, unit):
    """A value with its unit, as an axis or a stat shows it."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        return f"{value * 1000:.3g} ms" if 0 < abs(value) < 1 else f"{value:.3g} s"
    suffix = {"reqps": " /s", "ops": " /s", "bytes": "B"}.get(unit, "")
    base, names = (1024, ["", " Ki", " Mi", " Gi"]) if unit == "bytes" else (1000, ["", "k", "M", "G"])
    power = 0
    while abs(value) >= base and power < 3:
        value, power = value / base, power + 1
    return f"{value:.3g}{names[power]}{suffix}"


def ceiling(value):
    """The next round number: the top of an axis."""
    if value <= 0:
        return 1.0
    magnitude = 10 ** math.floor(math.log10(value))
    return next(step * magnitude for step in (1, 2, 4, 5, 8, 10) if step * magnitude >= value)


def text(x, y, words, size=11, color=INK, anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(str(words))}</text>')


def box(x, y, w, h, color):
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="3" fill="{color}"/>'


class Plot:
    """The inside of a panel: where a time and a value are on the page."""

    def __init__(self, prometheus, x, y, w, h, top):
        self.range, self.x, self.y, self.w, self.h, self.top = prometheus, x, y, w, h, top

    def at(self, when, value):
        across = (when - self.range.start) / (self.range.end - self.range.start)
        return self.x + across * self.w, self.y + self.h * (1 - min(value / self.top, 1))

    def line(self, points, color, floor=None):
        """A line; with `floor`, points of the line below, the area between."""
        path = []
        for n, (when, value) in enumerate(points):
            x, y = self.at(when, value)
            # A gap in the data is a gap in the line.
            begins = n == 0 or when - points[n - 1][0] > 1.5 * self.range.step
            path.append(f'{"M" if begins else "L"}{x:.1f} {y:.1f}')
        drawn = f'<path d="{"".join(path)}" fill="none" stroke="{color}" stroke-width="1.2"/>'
        if floor is not None and len(points) > 1:
            edge = [self.at(*point) for point in points] + [self.at(*point) for point in reversed(floor)]
            corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in edge)
            drawn = f'<polygon points="{corners}" fill="{color}" fill-opacity="0.3"/>{drawn}'
        return drawn

    def grid(self, unit):
        for n in range(5):
            value = self.top * n / 4
            _, y = self.at(self.range.start, value)
            yield f'<path d="M{self.x} {y:.1f}h{self.w}" stroke="#2c3036"/>'
            if n % 2 == 0:
                yield text(self.x - 6, y + 4, number(value, unit), 10, FAINT, "end")
        minutes = math.ceil((self.range.end - self.range.start) / 60 / 5)
        for n in range(5):
            when = self.range.start + (n * minutes + 0.5) * 60
            if when < self.range.end:
                x, _ = self.at(when, 0)
                yield text(x, self.y + self.h + 14, time.strftime("%H:%M", time.gmtime(when)), 10, FAINT, "middle")


def stacked(series):
    """Each series on top of those before: [(labels, its points, the points below)]."""
    heights, layers = {}, []
    for labels, points in series:
        floor = [(t, heights.get(t, 0.0)) for t, _ in points]
        heights.update({t: heights.get(t, 0.0) + v for t, v in points})
        layers.append((labels, [(t, heights[t]) for t, _ in points], floor))
    return layers


def timeseries(panel, prometheus, alerts, x, y, w, h):
    defaults = panel["fieldConfig"]["defaults"]
    unit, stacks = defaults["unit"], defaults["custom"]["stacking"]["mode"] == "normal"
    found = [({"legend": legend(target["legendFormat"], labels)}, points)
             for target in panel["targets"] for labels, points in prometheus.series(target["expr"])]
    layers = stacked(found) if stacks else [(labels, points, None) for labels, points in found]
    highest = max((v for _, points, _ in layers for _, v in points), default=0)
    plot = Plot(prometheus, x + 58, y + 32, w - 72, h - 84, defaults.get("max") or ceiling(highest))
    yield from plot.grid(unit)
    for when in alerts:
        at, _ = plot.at(when, 0)
        yield f'<path d="M{at:.1f} {plot.y}v{plot.h}" stroke="{THRESHOLD_COLORS["red"]}" stroke-dasharray="3 3"/>'
    for n, (_, points, floor) in enumerate(layers):
        yield plot.line(points, COLORS[n % len(COLORS)], floor)
    names = [labels["legend"] for labels, _, _ in layers]
    yield from draw_legend(names, x + 12, y + h - 26)


def draw_legend(names, x, y):
    """Draws at most two lines; names that do not fit are counted."""
    left, line = x, 0
    for n, name in enumerate(names):
        width = 20 + 5.6 * len(name)
        if left + width > x + 5.6 * LEGEND_LETTERS + 30:
            left, line = x, line + 1
        if line == 2:
            return
        if line == 1 and left + width + 60 > x + 5.6 * LEGEND_LETTERS and n < len(names) - 1:
            yield text(left, y + 14, f"and {len(names) - n} more", 10, FAINT)
            return
        yield f'<path d="M{left:.0f} {y + 14 * line - 3}h10" stroke="{COLORS[n % len(COLORS)]}" stroke-width="3"/>'
        yield text(left + 14, y + 14 * line, name, 10, FAINT)
        left += width


def stat(panel, prometheus, x, y, w, h):
    defaults = panel["fieldConfig"]["defaults"]
    series = prometheus.series(panel["targets"][0]["expr"])
    points = series[0][1] if series else []
    value = points[-1][1] if points else 0.0
    steps = defaults["thresholds"]["steps"]
    words = number(value, defaults["unit"])
    color = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    for mapping in defaults.get("mappings", []):
        special = mapping["options"].get(f"{value:g}")
        words, color = (special["text"], special["color"]) if special else (words, color)
    yield box(x, y, w, h, THRESHOLD_COLORS[color])
    yield text(x + w / 2, y + h / 2 + 18, words, 26, "#fff", "middle", "bold")


def table(panel, prometheus, x, y, w, h):
    """The last values, a line for each series, as many as fit."""
    organized = panel["transformations"][0]["options"]
    names = sorted(organized["indexByName"], key=organized["indexByName"].get)
    # The first, the alert's name, has twice the room.
    width = (w - 24) / (len(names) + 1)
    found = [(labels, points[-1]) for labels, points in prometheus.series(panel["targets"][0]["expr"])
             if points and prometheus.end - points[-1][0] < prometheus.step]
    lines = [[organized["renameByName"].get(name, name) for name in names]]
    for labels, (_, value) in sorted(found, key=lambda line: line[0].get("alertname", "")):
        lines.append([number(value, "s") if name == "Value" else labels.get(name, "") for name in names])
    for n, line in enumerate(lines[:int((h - 32) / 18)]):
        for column, words in enumerate(line):
            yield text(x + 12 + (column + (column > 0)) * width, y + 42 + 18 * n, words, 11, FAINT if n == 0 else INK)


def chosen(panels):
    """The panels above the rows, then each row with its first line of panels; positions are recomputed without the others."""
    first_row = next(n for n, panel in enumerate(panels) if panel["type"] == "row")
    y = line = 0
    for n, panel in enumerate(panels):
        place = panel["gridPos"]
        if n < first_row:
            yield panel, place["y"]
            y = place["y"] + place["h"]
        elif panel["type"] == "row":
            yield panel, y
            y, line = y + 1, None
        elif line is None or place["y"] == line:
            yield panel, y if line is None else y - place["h"]
            y, line = y + (place["h"] if line is None else 0), place["y"]


def draw(dashboard, prometheus):
    firing = prometheus.series('ALERTS{alertstate="firing", alertname=~"Connect.+"}')
    alerts = sorted({points[0][0] for _, points in firing if points})
    body, bottom = [], 0
    for panel, top in chosen(dashboard["panels"]):
        place = panel["gridPos"]
        x, y = place["x"] * COLUMN + GAP, top * UNIT + GAP
        w, h = place["w"] * COLUMN - GAP, place["h"] * UNIT - GAP
        bottom = max(bottom, y + h)
        if panel["type"] == "row":
            body.append(text(x, y + 16, panel["title"], 14, INK, weight="bold"))
            continue
        body.append(box(x, y, w, h, PANEL))
        if panel["type"] == "stat":
            body.extend(stat(panel, prometheus, x, y, w, h))
        elif panel["type"] == "table":
            body.extend(table(panel, prometheus, x, y, w, h))
        else:
            body.extend(timeseries(panel, prometheus, alerts, x, y, w, h))
        body.append(text(x + 12, y + 20, panel["title"], 12, INK, weight="bold"))
    width, height = 24 * COLUMN + GAP, bottom + GAP
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="Inter, Helvetica, Arial, sans-serif">{box(0, 0, width, height, PAGE)}' + "\n".join(body) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prometheus", required=True, help="its URL")
    parser.add_argument("--minutes", type=float, default=60, help="how far back")
    parser.add_argument("--rate", default="30s", help="value of $__rate_interval: four scrapes or more")
    options = parser.parse_args()
    dashboard = json.loads((Path(__file__).parent.parent / "connect.json").read_text())
    sys.stdout.write(draw(dashboard, Prometheus(options.prometheus, options.minutes, options.rate)))


if __name__ == "__main__":
    main()
