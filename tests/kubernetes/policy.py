"""The policy of the manifests: what Kubernetes accepts, but an operator should not.

Each rule is a function of all objects, which yields its faults.
"""

import ipaddress
import json
import pathlib
import re

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVICES = ["connect-ingest", "connect-worker", "connect-dispatcher", "connect-console"]
# People use it one page at a time, so that it needs no scaling.
NOT_SCALED = ["connect-console"]
# Waits for operators' commands: one copy, which serves nothing.
TOOLBOX = "connect-toolbox"
# Variables whose values must come from a Secret.
SECRET = re.compile(r"(_URL|_KEY|_KEY_PREVIOUS|_SECRET|PASSWORD)$")
# Addresses that everybody may know.
PUBLIC = ["CONNECT_CONSOLE_URL", "CONNECT_CONSOLE_API_URL"]


def of_kind(objects, *kinds):
    return [found for found in objects if found["kind"] in kinds]


def name_of(found):
    return f"{found['kind']} {found['metadata']['name']}"


def services(objects):
    return [found for found in of_kind(objects, "Deployment") if found["metadata"]["name"] != TOOLBOX]


def workloads(objects):
    """Each object that makes pods, with its pods' specification and labels."""
    for found in of_kind(objects, "Deployment", "Job", "StatefulSet", "DaemonSet"):
        template = found["spec"]["template"]
        yield found, template["spec"], template["metadata"]["labels"]


def containers(objects):
    for found, pod, _ in workloads(objects):
        for container in pod.get("initContainers", []) + pod["containers"]:
            yield found, pod, container


def rule_pods_are_restricted(objects):
    for found, pod, _ in workloads(objects):
        security = pod.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
            yield f"{name_of(found)}: runs as root"
        if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{name_of(found)}: has no seccomp profile"
        if pod.get("automountServiceAccountToken") is not False:
            yield f"{name_of(found)}: gets a token of Kubernetes' API, which no program uses"
        if pod.get("hostNetwork") or pod.get("hostPID") or pod.get("hostIPC"):
            yield f"{name_of(found)}: uses the node's namespaces"
        if any("hostPath" in volume for volume in pod.get("volumes", [])):
            yield f"{name_of(found)}: mounts a path of the node"


def rule_containers_are_restricted(objects):
    for found, _, container in containers(objects):
        security = container.get("securityContext", {})
        if security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
            yield f"{name_of(found)}: may gain privileges"
        if security.get("readOnlyRootFilesystem") is not True:
            yield f"{name_of(found)}: has a writable root file system"
        if security.get("capabilities", {}).get("drop") != ["ALL"] or security["capabilities"].get("add"):
            yield f"{name_of(found)}: keeps capabilities"


def rule_images_have_a_version(objects):
    for found, _, container in containers(objects):
        _, _, tag = container["image"].rpartition("/")[2].partition(":")
        if tag in ("", "latest"):
            yield f"{name_of(found)}: the image {container['image']} has no version"


def rule_resources_are_set(objects):
    for found, _, container in containers(objects):
        for kind in ("requests", "limits"):
            missing = {"cpu", "memory"} - set(container.get("resources", {}).get(kind, {}))
            if missing:
                yield f"{name_of(found)}: has no {kind} of {', '.join(sorted(missing))}"


def rule_services_have_probes(objects):
    for found, pod, container in containers(services(objects)):
        for probe, path in (("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            asked = container.get(probe, {}).get("httpGet", {})
            if (asked.get("path"), asked.get("port")) != (path, "metrics"):
                yield f"{name_of(found)}: its {probe} does not ask {path} of the metrics port"
        # CONNECT_SHUTDOWN_TIMEOUT is 25 s.
        stopping = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["0"])[-1]
        if pod.get("terminationGracePeriodSeconds", 30) < 25 + int(stopping) + 5:
            yield f"{name_of(found)}: is killed before it has drained"


def rule_secrets_are_referred_to(objects):
    for found, pod, container in containers(objects):
        secret = {volume["name"] for volume in pod.get("volumes", []) if {"secret", "projected"} & set(volume)}
        mounts = [mount["mountPath"] for mount in container.get("volumeMounts", []) if mount["name"] in secret]
        for variable in container.get("env", []):
            name = variable["name"].removesuffix("_FILE")
            if SECRET.search(name) and name != variable["name"] and str(pathlib.PurePath(variable["value"]).parent) not in mounts:
                yield f"{name_of(found)}: {variable['name']} names no file of a mounted Secret"
            is_secret = SECRET.search(variable["name"]) and variable["name"] not in PUBLIC
            if is_secret and "secretKeyRef" not in variable.get("valueFrom", {}):
                yield f"{name_of(found)}: {variable['name']} does not come from a Secret"
    if of_kind(objects, "Secret"):
        yield "a Secret is among the manifests"
    for found in of_kind(objects, "ConfigMap"):
        for name in found["data"]:
            if SECRET.search(name):
                yield f"{name_of(found)}: {name} belongs into a Secret"


def rule_copies_are_spread(objects):
    for found, pod, labels in workloads(services(objects)):
        keys = {spread["topologyKey"] for spread in pod.get("topologySpreadConstraints", [])}
        if keys != {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}:
            yield f"{name_of(found)}: its copies are not spread over nodes and zones"


def rule_every_service_is_complete(objects):
    deployments = {found["metadata"]["name"]: found for found in services(objects)}
    if sorted(deployments) != sorted(SERVICES):
        yield f"the Deployments are {sorted(deployments)}"
    budgets = [found["spec"]["selector"]["matchLabels"] for found in of_kind(objects, "PodDisruptionBudget")]
    selected = [found["spec"]["selector"] for found in of_kind(objects, "Service")]
    scaled = {found["spec"]["scaleTargetRef"]["name"] for found in of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject")}
    for name, found in deployments.items():
        labels = found["spec"]["template"]["metadata"]["labels"]
        for kind, selectors in (("PodDisruptionBudget", budgets), ("Service", selected)):
            if sum(selector.items() <= labels.items() for selector in selectors) != 1:
                yield f"{name_of(found)}: not exactly one {kind} selects it"
        if name not in scaled and name not in NOT_SCALED:
            yield f"{name_of(found)}: nothing scales it"
    migrations = [pod.get("initContainers", []) for found, pod, _ in workloads(objects) if found["metadata"]["name"] == TOOLBOX]
    if [[container["command"][:2] for container in first] for first in migrations] != [[["connectctl", "migrate"]]]:
        yield f"{TOOLBOX} does not migrate the schema first"


def rule_network_is_denied_by_default(objects):
    policies = [found["spec"] for found in of_kind(objects, "NetworkPolicy")]
    nothing = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    if nothing not in policies:
        yield "no NetworkPolicy denies what no other one allows"
    for found in of_kind(objects, "NetworkPolicy"):
        for direction, peers in (("ingress", "from"), ("egress", "to")):
            for rule in found["spec"].get(direction, []):
                if not rule.get(peers) or not rule.get("ports"):
                    yield f"{name_of(found)}: a rule allows every {direction} peer or port"


def rule_webhooks_leave_to_public_addresses_only(objects):
    """Judges the addresses of tests/vectors/ssrf.json as the dispatcher does."""
    blocks = [
        (ipaddress.ip_network(peer["ipBlock"]["cidr"]), [ipaddress.ip_network(part) for part in peer["ipBlock"].get("except", [])])
        for found in of_kind(objects, "NetworkPolicy")
        if found["metadata"]["name"] == "dispatcher-to-receivers"
        for rule in found["spec"]["egress"]
        for peer in rule["to"]
    ]
    if not blocks:
        yield "no NetworkPolicy dispatcher-to-receivers"
    for case in json.loads((ROOT / "tests/vectors/ssrf.json").read_text())["cases"]:
        if "address" not in case:
            continue
        address = ipaddress.ip_address(case["address"])
        # On the wire a mapped address is its IPv4 address.
        address = getattr(address, "ipv4_mapped", None) or address
        allowed = any(
            address.version == block.version and address in block and not any(address in part for part in parts)
            for block, parts in blocks
        )
        if allowed != (case["expect"] == "allowed"):
            yield f"webhooks to {case['address']} ({case['why']}): allowed is {allowed}"


def rule_settings_and_metrics_exist(objects):
    page = (ROOT / "docs/settings.md").read_text()
    names = [name for found in of_kind(objects, "ConfigMap") for name in found["data"]]
    names += [variable["name"] for _, _, container in containers(objects) for variable in container.get("env", [])]
    for name in names:
        if f"| `{name}` |" not in page and f"| `{name.removesuffix('_FILE')}` |" not in page:
            yield f"the setting {name} is not in docs/settings.md"
    known = (ROOT / "common/src/metrics.rs").read_text()
    for found in of_kind(objects, "ScaledObject"):
        for trigger in found["spec"]["triggers"]:
            for metric in re.findall(r"\bconnect_\w+", trigger["metadata"]["query"]):
                if f'"{re.sub("_(bucket|count)$", "", metric)}"' not in known:
                    yield f"{name_of(found)}: no program has the metric {metric}"


def rule_alerts_are_those_of_prometheus(objects):
    sources = sorted((ROOT / "ops/prometheus/rules").glob("*.yml"))
    expected = {f"connect-{path.stem}": yaml.load(path.read_text(), yaml.CSafeLoader)["groups"] for path in sources}
    found = {rule["metadata"]["name"]: rule["spec"]["groups"] for rule in of_kind(objects, "PrometheusRule")}
    if found != expected:
        yield "the PrometheusRules differ from ops/prometheus/rules: run ops/kubernetes/prometheus-operator/rules.sh"
    for monitor in of_kind(objects, "ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        jobs = sorted(
            service["metadata"]["labels"].get(monitor["spec"]["jobLabel"], "")
            for service in of_kind(objects, "Service")
            if wanted.items() <= service["metadata"]["labels"].items()
            and any(port.get("name") == monitor["spec"]["endpoints"][0]["port"] for port in service["spec"]["ports"])
        )
        if jobs != sorted(SERVICES):
            yield f"{name_of(monitor)}: its jobs are {jobs}, the rules expect {sorted(SERVICES)}"


def faults(objects):
    rules = [rule for name, rule in sorted(globals().items()) if name.startswith("rule_")]
    return [fault for rule in rules for fault in rule(objects)]
