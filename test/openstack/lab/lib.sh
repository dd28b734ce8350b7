# Settings and functions shared by the scripts in this folder. Sourced, not run.
#
# All that the scripts write (configuration, data, logs, pid files) goes under one
# state directory, and every server listens on 127.0.0.1 only.

# ---- settings, each can be overridden from the environment -----------------

export OSLAB_STATE=${OSLAB_STATE:-/var/tmp/oslab}
export OSLAB_HOSTS=${OSLAB_HOSTS:-4}              # number of fake hypervisors
export OSLAB_PASSWORD=${OSLAB_PASSWORD:-secret}   # of every account
export OSLAB_HA_PORT=${OSLAB_HA_PORT:-15868}      # instance-ha endpoint in RegionOne
export OSLAB_MASAKARI_PORT=${OSLAB_MASAKARI_PORT:-25868}  # Debian's Masakari
export OSLAB_REPORT_INTERVAL=${OSLAB_REPORT_INTERVAL:-2}  # seconds between heartbeats
export OSLAB_MYSQL_PORT=${OSLAB_MYSQL_PORT:-3306} # the MariaDB that is there, else an own one
export OSLAB_RABBIT_PORT=${OSLAB_RABBIT_PORT:-5672} # likewise
export OSLAB_DOWN_TIME=${OSLAB_DOWN_TIME:-10}     # silence after which a host is "down"

state=$OSLAB_STATE
lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

ip=127.0.0.1
keystone_port=5000
glance_port=9292
nova_port=8774
placement_port=8778
neutron_port=9696
mysql_port=$OSLAB_MYSQL_PORT
rabbit_port=$OSLAB_RABBIT_PORT
memcached_port=11211

keystone_url=http://$ip:$keystone_port/v3
transport_url=rabbit://guest:guest@$ip:$rabbit_port/

# The Debian daemons use the Debian interpreter, whatever "python3" is in PATH.
python=/usr/bin/python3
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost
unset PYTHONPATH

# ---- output ------------------------------------------------------------------

say() { printf '%s %s\n' "$(date +%T)" "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# unavailable TEXT: this machine cannot have a lab; status 69 tells the test suite to skip.
unavailable() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 69; }

# ---- packages --------------------------------------------------------------------

# install_packages NAME...: install the packages that are missing.
install_packages() {
  local missing=() name policy=/usr/sbin/policy-rc.d
  for name; do
    [ "$(dpkg-query -Wf '${Status}' "$name" 2>/dev/null)" = "install ok installed" ] ||
      missing+=("$name")
  done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing ${missing[*]}"
  # Packages must not start their daemons: these scripts do, as they need them.
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap "rm -f $policy" EXIT
  fi
  apt_get update
  apt_get install "${missing[@]}"
}

# apt_get COMMAND...: apt-get without questions; tries again while another apt runs.
apt_get() {
  local try
  for try in 1 2 3 4 5 6; do
    DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends \
      -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold \
      "$@" >>"$state/log/apt.log" 2>&1 </dev/null && return 0
    sleep 10
  done
  unavailable "apt-get $1 failed, see $state/log/apt.log"
}

# ---- processes -----------------------------------------------------------------

# alive NAME: is the daemon NAME of this state directory running?
# The mark in the environment guards against a pid that was given to another process.
alive() {
  local pid
  pid=$(cat "$state/run/$1.pid" 2>/dev/null) || return 1
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "OSLAB_DAEMON=$state:$1"
}

# start NAME COMMAND...: run COMMAND in the background, in a session of its own.
start() {
  local name=$1 i
  shift
  alive "$name" && return 0
  # Linux shares the processors out among sessions first (autogroup), whatever the niceness of what runs in them: without
  # this, "nice up" would say nothing to anyone but the daemon itself.
  OSLAB_DAEMON=$state:$name setsid bash -c 'echo "$(nice)" 2>/dev/null >/proc/self/autogroup; exec "$@"' - "$@" \
    >>"$state/log/$name.log" 2>&1 </dev/null &
  echo $! >"$state/run/$name.pid"
  for ((i = 0; i < 20; i++)); do # until it has its environment
    alive "$name" && return 0
    sleep 0.05
  done
}

# stop NAME [SIGNAL]: end the daemon NAME with its children; KILL after 15 s.
stop() {
  local name=$1 signal=${2:-TERM} pid i
  if alive "$name"; then
    pid=$(cat "$state/run/$name.pid")
    kill "-$signal" -- "-$pid" 2>/dev/null || true
    for ((i = 0; i < 150; i++)); do
      alive "$name" || break
      sleep 0.1
    done
    kill -KILL -- "-$pid" 2>/dev/null || true
  fi
  rm -f "$state/run/$name.pid"
}

listening() { (exec 3<>"/dev/tcp/$ip/$1") 2>/dev/null; }

# wait_port NAME PORT [SECONDS]
wait_port() {
  local i
  for ((i = 0; i < ${3:-60} * 5; i++)); do
    listening "$2" && return 0
    alive "$1" || die "$1 ended at once, see $state/log/$1.log"
    sleep 0.2
  done
  die "$1 does not listen on port $2, see $state/log/$1.log"
}

# wait_log NAME TEXT [TIMES]: until the daemon NAME, whose log began with its start, has logged TEXT so often.
wait_log() {
  local i
  for ((i = 0; i < 1500; i++)); do
    [ "$(grep -cF "$2" "$state/log/$1.log")" -ge "${3:-1}" ] && return 0
    alive "$1" || die "$1 ended at once, see $state/log/$1.log"
    sleep 0.2
  done
  die "$1 has not logged '$2' after 300 s, see $state/log/$1.log"
}

# start_wsgi NAME PORT PROCESSES THREADS WSGI-FILE [OPTION...]: serve a WSGI script
# with uWSGI. The options are those of Debian's own *-uwsgi.ini files.
start_wsgi() {
  start "$1" uwsgi_python3 --http-socket "$ip:$2" --processes "$3" --threads "$4" \
    --wsgi-file "$5" --master --lazy-apps --enable-threads --thunder-lock \
    --die-on-term --no-orphans --buffer-size 65535 --post-buffering 65535 \
    --listen 100 --add-header 'Connection: close' --disable-logging \
    "${@:6}"
}

# start_compute HOST: start the nova-compute process of one fake hypervisor.
start_compute() {
  start "nova-compute-$1" $python "$lab/nova-compute" \
    --config-file "$state/etc/nova/nova.conf" \
    --config-file "$state/etc/nova/$1.conf"
}

# ---- once-only steps --------------------------------------------------------------

# once STEP COMMAND...: run COMMAND unless it succeeded before with this state.
# In the background, since "set -e" does not hold for a function before "||".
once() {
  local step=$1
  shift
  [ -e "$state/done/$step" ] && return 0
  "$@" >>"$state/log/$step.log" 2>&1 &
  wait $! || die "$step failed, see $state/log/$step.log"
  touch "$state/done/$step"
}

# ---- database -------------------------------------------------------------------

sql() { mariadb --user=root --socket="$(cat "$state/mysql.socket")" "$@"; }

# create_databases NAME...: with full rights for the account "oslab".
create_databases() {
  local name
  for name; do
    echo "CREATE DATABASE IF NOT EXISTS $name CHARACTER SET utf8mb3;"
    echo "GRANT ALL ON $name.* TO oslab@'localhost' IDENTIFIED BY '$OSLAB_PASSWORD';"
    echo "GRANT ALL ON $name.* TO oslab@'127.0.0.1' IDENTIFIED BY '$OSLAB_PASSWORD';"
  done | sql
}

db_url() { echo "mysql+pymysql://oslab:$OSLAB_PASSWORD@$ip:$mysql_port/$1?charset=utf8"; }

# ---- configuration files ----------------------------------------------------------

# service_login USER: the options with which a service logs in to Keystone.
service_login() {
  cat <<END
auth_type = password
auth_url = $keystone_url
username = $1
password = $OSLAB_PASSWORD
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
END
}

# authtoken USER: the section with which an API checks the tokens of its callers.
authtoken() {
  echo "[keystone_authtoken]"
  service_login "$1"
  echo "www_authenticate_uri = $keystone_url"
  echo "memcached_servers = $ip:$memcached_port"
}

# write FILE: standard input into FILE.
write() {
  mkdir -p "$(dirname "$1")"
  cat >"$1"
}

# openrc NAME USER PROJECT [REGION]: a file to source before the openstack command.
openrc() {
  write "$state/$1-openrc" <<END
export OS_AUTH_URL=$keystone_url
export OS_USERNAME=$2
export OS_PASSWORD=$OSLAB_PASSWORD
export OS_PROJECT_NAME=$3
export OS_USER_DOMAIN_NAME=Default
export OS_PROJECT_DOMAIN_NAME=Default
export OS_REGION_NAME=${4:-RegionOne}
export OS_IDENTITY_API_VERSION=3
export OS_COMPUTE_API_VERSION=2.90
END
}
