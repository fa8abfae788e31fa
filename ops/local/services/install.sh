# shellcheck shell=bash
# Part of services.sh: installs missing packages without starting or changing any server of the system.

# Whether a program can be compiled and linked, which Rust's linker needs as well: the compiler alone isn't enough,
# the C library's development files are a package of their own.
compiler_works() {
    echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - 2>/dev/null
}

# missing_packages GROUP...
missing_packages() {
    local group
    for group in "$@"; do
        case $group in
        postgres) postgres_programs >/dev/null || echo postgresql ;;
        rabbitmq) [[ -x $RABBITMQ_SCRIPTS/rabbitmq-server ]] || echo rabbitmq-server ;;
        tools)
            # For the sample of `make run`: curl sends, openssl signs, jq reads connectctl's JSON.
            command -v curl >/dev/null || echo curl
            command -v openssl >/dev/null || echo openssl
            command -v jq >/dev/null || echo jq
            # For cargo: certificates to fetch crates, a compiler and linker to build them.
            [[ -s /etc/ssl/certs/ca-certificates.crt ]] || echo ca-certificates
            compiler_works || printf '%s\n' gcc libc6-dev
            command -v make >/dev/null || echo make
            ;;
        checks)
            # For `make test` only. Prometheus and its promtool run the alerts and the dashboard; Python, Node and PHP run
            # the examples.
            { command -v prometheus && command -v promtool; } >/dev/null || echo prometheus
            command -v python3 >/dev/null || echo python3
            command -v node >/dev/null || echo nodejs
            command -v php >/dev/null || echo php-cli
            # Between the programs and Postgres in some tests.
            [[ -x /usr/sbin/pgbouncer ]] || echo pgbouncer
            # In front of two cells.
            [[ -x /usr/sbin/haproxy ]] || echo haproxy
            # For programs whose clocks differ.
            command -v faketime >/dev/null || echo faketime
            ;;
        # For the tests of the API description: a browser for its page, and Python for the other tools.
        browser) command -v chromium >/dev/null || echo chromium ;;
        python) python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv ;;
        *) fail_usage ;;
        esac
    done
}

install_missing() {
    local packages
    (($# > 0)) || set -- postgres rabbitmq tools
    packages=$(missing_packages "$@") || exit $?
    [[ -n $packages ]] || return 0
    # One word a line from here on, joined where it is shown.
    mapfile -t packages <<<"$packages"
    command -v apt-get >/dev/null || fail "this system has no apt-get; install these packages by hand: ${packages[*]}"
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "please install as root: apt-get install ${packages[*]}"
        exec sudo -- "$SELF" install "$@"
    fi

    # One installation at a time: a second one would not see the state that the traps below restore.
    exec 8<"$SELF"
    flock -w 600 8 || fail "another installation is under way"
    say "installing with apt-get: ${packages[*]}"
    keep_servers_stopped
    trap restore_system EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    local log=${TMPDIR:-/tmp}/connect-install.$$.log
    # The frontend never asks, edited configuration stays, and services that run are not restarted.
    export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 NEEDRESTART_SUSPEND=1
    # Package lists may be missing or old, so they are fetched after a first failure.
    apt_install "${packages[@]}" >"$log" 2>&1 ||
        { apt-get -q -o DPkg::Lock::Timeout=300 update && apt_install "${packages[@]}"; } >>"$log" 2>&1 ||
        { show_log "$log" && fail "apt-get could not install ${packages[*]}, see $log"; }
    rm -f "$log"

    # Debian starts a newly installed server at boot. The servers here are private, so the system's is disabled.
    local server
    for server in rabbitmq-server prometheus pgbouncer haproxy; do
        [[ " ${packages[*]} " == *" $server "* ]] && command -v update-rc.d >/dev/null || continue
        update-rc.d "$server" disable >/dev/null 2>&1 || true
    done
    restore_system
    trap - EXIT INT TERM

    packages=("$(missing_packages "$@")")
    [[ -z ${packages[*]} ]] || fail "still missing after the installation (is the Debian release too old?): ${packages[*]}"
}

apt_install() {
    apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@" </dev/null
}

POLICY=/usr/sbin/policy-rc.d
CLUSTER_CONF=/etc/postgresql-common/createcluster.conf
made_policy=
made_cluster_conf=

# Installing a package starts its server unless policy-rc.d refuses (exit code 101), and installing PostgreSQL creates
# a database cluster unless its configuration forbids it. Existing files are left as they are.
keep_servers_stopped() {
    if [[ ! -e $POLICY ]]; then
        made_policy=yes
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod 755 "$POLICY"
    fi
    if [[ ! -e $CLUSTER_CONF ]]; then
        made_cluster_conf=yes
        mkdir -p "${CLUSTER_CONF%/*}"
        echo 'create_main_cluster = false' >"$CLUSTER_CONF"
    fi
}

# Leaves the machine as an ordinary installation would.
restore_system() {
    [[ -z $made_policy ]] || rm -f "$POLICY"
    if [[ -n $made_cluster_conf ]]; then
        cp /usr/share/postgresql-common/createcluster.conf "$CLUSTER_CONF" 2>/dev/null || rm -f "$CLUSTER_CONF"
        rm -f "$CLUSTER_CONF.ucf-dist"
    fi
    made_policy='' made_cluster_conf=''
}
