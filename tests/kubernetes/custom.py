"""The structure of objects whose schemas are not part of Kubernetes: KEDA's and the Prometheus operator's.

A structure is a type, a list with the structure of its elements, or an object with its fields: `name?` may be absent, `*` stands for
any further name. Fields that are not listed are faults.
"""

BEHAVIOR = {
    "scaleUp?": {"policies": [{"type": str, "value": int, "periodSeconds": int}], "stabilizationWindowSeconds?": int},
    "scaleDown?": {"policies": [{"type": str, "value": int, "periodSeconds": int}], "stabilizationWindowSeconds?": int},
}
METADATA = {"name": str, "namespace?": str, "labels?": {"*": str}}

STRUCTURES = {
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef": {"name": str},
        "pollingInterval": int,
        "cooldownPeriod": int,
        "minReplicaCount": int,
        "maxReplicaCount": int,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": BEHAVIOR}},
        "triggers": [{
            "type": str,
            "metricType": str,
            # KEDA reads numbers and booleans from strings.
            "metadata": {"serverAddress": str, "query": str, "threshold": str, "ignoreNullValues": str},
        }],
    },
    ("monitoring.coreos.com/v1", "ServiceMonitor"): {
        "jobLabel": str,
        "selector": {"matchLabels": {"*": str}},
        "endpoints": [{"port": str, "path": str, "interval": str}],
    },
    ("monitoring.coreos.com/v1", "PrometheusRule"): {
        "groups": [{
            "name": str,
            "rules": [{
                "alert?": str,
                "record?": str,
                "expr": str,
                "for?": str,
                "labels?": {"*": str},
                "annotations?": {"*": str},
            }],
        }],
    },
}


def is_custom(found):
    return (found.get("apiVersion"), found.get("kind")) in STRUCTURES


def faults(found):
    expected = {"apiVersion": str, "kind": str, "metadata": METADATA, "spec": STRUCTURES[found["apiVersion"], found["kind"]]}
    yield from differences(found, expected, "")
    for group in found["spec"].get("groups", []):
        for rule in group.get("rules", []):
            if ("alert" in rule) == ("record" in rule):
                yield f"a rule of {group.get('name')} must either alert or record"


def differences(value, expected, place):
    if isinstance(expected, type):
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            yield f"{place} must be {expected.__name__}, not {value!r}"
    elif isinstance(expected, list):
        if not isinstance(value, list) or not value:
            yield f"{place} must be a list with elements"
            return
        for index, element in enumerate(value):
            yield from differences(element, expected[0], f"{place}/{index}")
    elif not isinstance(value, dict):
        yield f"{place} must be an object"
    else:
        for name in expected:
            if name != "*" and not name.endswith("?") and name not in value:
                yield f"{place}/{name} is missing"
        for name, inner in value.items():
            structure = expected.get(name) or expected.get(f"{name}?") or expected.get("*")
            if structure is None:
                yield f"{place}/{name} is unknown"
            else:
                yield from differences(inner, structure, f"{place}/{name}")
