"""Checks Kubernetes manifests: check.py DIRECTORY|FILE..

Each object is checked against the schemas of Kubernetes' API (the oldest and the newest version of `VERSIONS`), and against the
policy of `policy.py`. Objects of KEDA and of the Prometheus operator, whose schemas are not part of Kubernetes, are checked for the
fields that `custom.py` lists. Of a directory, kustomizations must name files that exist, and all manifests beside them. Prints JSON,
for each argument its faults and how many objects of each kind it has; ends with 1 if there is a fault.
"""

import collections
import functools
import json
import pathlib
import sys

import kubernetes_validate
import yaml

import custom
import policy

# The oldest version that cluster operators still run, and the newest one that the schemas know.
VERSIONS = ["1.29", "1.37"]


def manifests_of(directory):
    """The files of a directory's manifests, and what is wrong with its kustomizations."""
    faults = []
    listed = set()
    for path in sorted(directory.rglob("kustomization.yaml")):
        content = yaml.safe_load(path.read_text())
        for name in content.get("resources", []) + content.get("components", []):
            target = (path.parent / name).resolve()
            if target.is_dir():
                target = target / "kustomization.yaml"
            if not target.is_file():
                faults.append(f"{path}: {name} does not exist")
            listed.add(target)
    files = [path for path in sorted(directory.rglob("*.yaml")) if path.name != "kustomization.yaml"]
    for path in files:
        if path.resolve() not in listed:
            faults.append(f"{path}: no kustomization names it")
    return files, faults


@functools.cache
def objects_in(text):
    return [found for found in yaml.load_all(text, yaml.CSafeLoader) if found is not None]


# Every check reads the schemas again, which takes longer than all else; several directories mostly have the same objects.
@functools.cache
def faults_of_schema(text):
    """What the API would refuse of an object in JSON. A field that it does not know is a fault: the API would ignore it."""
    found, faults = json.loads(text), []
    if custom.is_custom(found):
        return list(custom.faults(found))
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(found, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            place = "/".join(str(part) for part in error.path)
            faults.append(f"Kubernetes {version}: {place}: {error.message}")
        except kubernetes_validate.SchemaNotFoundError as error:
            faults.append(f"Kubernetes {version}: {error.message}")
    return faults


def check(argument):
    """The faults of a directory or file, and how many objects of each kind it has."""
    files, faults = [argument], []
    if argument.is_dir():
        files, faults = manifests_of(argument)
    objects = [(path, found) for path in files for found in objects_in(path.read_text())]
    for path, found in objects:
        name = f"{path}: {found.get('kind')} {found.get('metadata', {}).get('name')}"
        faults += [f"{name}: {fault}" for fault in faults_of_schema(json.dumps(found))]
    # The policy cannot judge what the schema refuses.
    if not faults:
        faults += policy.faults([found for _, found in objects])
    return {"faults": faults, "kinds": collections.Counter(found.get("kind") for _, found in objects)}


checked = [check(pathlib.Path(argument)) for argument in sys.argv[1:]]
json.dump(checked, sys.stdout, indent=1)
sys.exit(any(result["faults"] or not result["kinds"] for result in checked) or not checked)
