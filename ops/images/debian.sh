#!/usr/bin/env bash
# Makes a Docker image of Debian 12 from Debian's packages, for machines that reach no image registry:
#
#   debian.sh IMAGE      such as connect-debian:bookworm
#
# Takes mmdebstrap or debootstrap, and installs mmdebstrap with apt-get if neither exists. Packages come from
# CONNECT_DEBIAN_MIRROR (http://deb.debian.org/debian when not set). Needs root for the files' owners.

set -euo pipefail

IMAGE=${1:?usage: debian.sh IMAGE}
SUITE=bookworm
MIRROR=${CONNECT_DEBIAN_MIRROR:-http://deb.debian.org/debian}
SECURITY=${CONNECT_DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}

fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

sources() {
    printf 'deb %s %s main\n' "$MIRROR" "$SUITE" "$MIRROR" "$SUITE-updates" "$SECURITY" "$SUITE-security"
}

# Documents and translations are half of a minimal system; copyright files stay, because licenses ask for them.
EXCLUDED=('/usr/share/man/*' '/usr/share/locale/*' '/usr/share/doc/*' '/usr/share/info/*')

with_mmdebstrap() {
    local options=() path
    for path in "${EXCLUDED[@]}"; do options+=("--dpkgopt=path-exclude=$path"); done
    options+=('--dpkgopt=path-include=/usr/share/doc/*/copyright')
    sources | mmdebstrap --variant=minbase --include=ca-certificates \
        --keyring=/usr/share/keyrings/debian-archive-keyring.gpg "${options[@]}" "$SUITE" "$1" - >"$WORK/log" 2>&1 ||
        { tail -n 20 "$WORK/log" >&2 && fail 'mmdebstrap failed'; }
}

with_debootstrap() {
    local root=$WORK/root path
    debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$root" "$MIRROR" >"$WORK/log" 2>&1 ||
        { tail -n 20 "$WORK/log" >&2 && fail 'debootstrap failed'; }
    sources >"$root/etc/apt/sources.list"
    for path in man locale info; do rm -rf "${root:?}/usr/share/$path"; done
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" --one-file-system -cf "$1" .
}

((EUID == 0)) || fail 'run it as root: the files of the image belong to users of its own'
if ! command -v mmdebstrap >/dev/null && ! command -v debootstrap >/dev/null; then
    command -v apt-get >/dev/null || fail 'install mmdebstrap or debootstrap'
    apt-get -q -y install --no-install-recommends mmdebstrap >/dev/null
fi

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
if command -v mmdebstrap >/dev/null; then with_mmdebstrap "$WORK/debian.tar"; else with_debootstrap "$WORK/debian.tar"; fi
docker import --change 'CMD ["bash"]' "$WORK/debian.tar" "$IMAGE" >/dev/null
