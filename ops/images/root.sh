#!/bin/sh
# Assembles the files of the programs' image in a directory, from Debian's packages: root.sh DIRECTORY. Runs in a stage
# of the Dockerfile, on Debian.
#
# The image has the C library, the root certificates and busybox, whose wget asks /readyz in health checks. It has no
# package manager and, apart from busybox, no shell. What the packages are is recorded where scanners look for it
# (/var/lib/dpkg/status.d, a file for each package).

set -eu

ROOT=$1
PACKAGES='base-files busybox ca-certificates libc6 libgcc-s1'

apt-get -q update
# Makes the file of all root certificates, which is not in the package.
apt-get -q -y install --no-install-recommends ca-certificates

downloads=$(mktemp -d)
cd "$downloads"
# Without the sandbox's user, who may not write here.
# shellcheck disable=SC2086  # one word for each package
apt-get -q -o APT::Sandbox::User=root download $PACKAGES

mkdir -p "$ROOT/var/lib/dpkg/status.d"
for package in *.deb; do
    dpkg-deb --extract "$package" "$ROOT"
    dpkg-deb --field "$package" >"$ROOT/var/lib/dpkg/status.d/$(dpkg-deb --field "$package" Package)"
done

# Nothing converts character sets or reads documents. Copyright files stay.
find "$ROOT/usr/share/doc" -type f ! -name copyright -delete
rm -rf "$ROOT"/usr/lib/*/gconv "$ROOT"/usr/share/man "$ROOT"/usr/share/info "$ROOT"/usr/share/lintian \
    "$ROOT"/usr/share/initramfs-tools "$ROOT"/usr/share/ca-certificates "$ROOT"/usr/sbin/update-ca-certificates
find "$ROOT/usr/share" -depth -type d -empty -delete
mkdir -p "$ROOT/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$ROOT/etc/ssl/certs/"

# Names of containers and hosts: first /etc/hosts, then DNS.
echo 'hosts: files dns' >"$ROOT/etc/nsswitch.conf"
printf '%s\n' 'root:x:0:0:root:/root:/usr/sbin/nologin' 'connect:x:10001:10001::/nonexistent:/usr/sbin/nologin' >"$ROOT/etc/passwd"
printf '%s\n' 'root:x:0:' 'connect:x:10001:' >"$ROOT/etc/group"
