"""Lists the parts of the image in CycloneDX 1.5 (JSON) on standard output.

The crates come from the programs themselves: `cargo auditable` writes them into the section `.dep-v0`. Their checksums come
from Cargo.lock, the Debian packages from their control files. No service is asked, and nothing but Python is needed.
"""

import argparse
import json
import pathlib
import struct
import sys
import tomllib
import urllib.parse
import uuid
import zlib

SECTION = b".dep-v0"


def audit_section(path):
    """The content of the section `.dep-v0` of a 64-bit little-endian ELF file, or None."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{path}: not a 64-bit little-endian ELF program")
    table, size, count, names_at = struct.unpack_from("<Q10xHHH", data, 0x28)
    # Of each header: name, offset and length of the section.
    headers = [struct.unpack_from("<I20xQQ", data, table + index * size) for index in range(count)]
    names = headers[names_at][1]
    for name, offset, length in headers:
        start = names + name
        if data[start : data.index(b"\0", start)] == SECTION:
            return data[offset : offset + length]
    return None


def crates_of(path):
    """The crates of a program as (name, version, source), without those that only its build ran."""
    section = audit_section(path)
    if section is None:
        sys.exit(f"{path}: does not say which crates it has; compile it with `cargo auditable build --release`")
    listed = json.loads(zlib.decompress(section))["packages"]
    return {(crate["name"], crate["version"], crate["source"]) for crate in listed if crate.get("kind") != "build"}


def crate_component(crate, checksums, programs):
    name, version, source = crate
    component = {
        "type": "library",
        "bom-ref": f"pkg:cargo/{name}@{version}",
        "name": name,
        "version": version,
        "purl": f"pkg:cargo/{name}@{urllib.parse.quote(version, safe='')}",
        "properties": [{"name": "connect:program", "value": program} for program in sorted(programs)],
    }
    if (name, version) in checksums:
        component["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    elif source != "local":
        sys.exit(f"{name} {version} is in a program but not in Cargo.lock: compile the programs again")
    return component


def package_component(control):
    fields = dict(line.split(": ", 1) for line in control.splitlines() if ": " in line and not line.startswith(" "))
    name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
    purl = f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}?arch={architecture}&distro=debian-12"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "supplier": {"name": fields.get("Maintainer", "Debian")},
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("--lock", type=pathlib.Path, required=True, help="Cargo.lock of the build")
    arguments.add_argument("--packages", type=pathlib.Path, required=True, help="directory of Debian control files")
    arguments.add_argument("programs", type=pathlib.Path, nargs="+")
    given = arguments.parse_args()

    locked = tomllib.loads(given.lock.read_text())["package"]
    checksums = {(crate["name"], crate["version"]): crate["checksum"] for crate in locked if "checksum" in crate}
    users = {}
    for program in given.programs:
        for crate in crates_of(program):
            users.setdefault(crate, set()).add(program.name)
    components = [crate_component(crate, checksums, users[crate]) for crate in sorted(users)]
    components += [package_component(path.read_text()) for path in sorted(given.packages.iterdir())]

    version = next(crate["version"] for crate in locked if crate["name"] == "ingest")
    # The same parts make the same document, so that a build can be compared with another.
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": "connect", "name": "connect", "version": version}},
        "components": components,
        "dependencies": [{"ref": "connect", "dependsOn": [component["bom-ref"] for component in components]}],
    }
    json.dump(document, sys.stdout, indent=1)
    print()


main()
