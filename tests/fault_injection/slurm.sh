#!/bin/sh
# slurm.sh - runs a command with a Slurm cluster of this machine alone: its own munged, slurmctld and slurmd, on the loopback
# interface and on free ports, with their files in a temporary folder. They end when the command ends.
#
#   slurm.sh COMMAND...       exit status of the command; 77: Slurm is not installed and cannot be installed (the reason is printed)
#
# The command finds the cluster through SLURM_CONF. Several ranks share a core: srun --overcommit --mpi=pmix -n 4 PROGRAM. Missing
# packages are installed by apt-get, as root.
set -u

skip() {
    echo "SKIPPED: $*"
    exit 77
}

install_slurm() {
    [ "$(id -u)" = 0 ] || skip "Slurm is not installed, and this user may not install it; try: apt-get install slurm-wlm munge"
    command -v apt-get >/dev/null || skip "Slurm is not installed, and there is no apt-get; try: install slurm and munge"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends slurm-wlm munge; } \
        >"$dir/install.log" 2>&1 || skip "cannot install slurm-wlm and munge: $(tail -n 1 "$dir/install.log")"
}

# stop_daemon FILE - ends the process whose number is in the file, and waits for it.
stop_daemon() {
    [ -s "$1" ] || return 0
    pid=$(cat "$1")
    kill "$pid" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.3
    done
    kill -9 "$pid" 2>/dev/null
}

stop_slurm() {
    for name in slurmctld slurmd munged; do stop_daemon "$dir/$name.pid"; done
    rm -rf "$dir"
}

write_configuration() {
    host=$(hostname -s) cores=$(getconf _NPROCESSORS_ONLN) port=$((20000 + $$ % 10000))
    cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 10000))
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ReturnToService=2
GresTypes=gpu
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cores Sockets=1 CoresPerSocket=$cores ThreadsPerCore=1 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
CONF
    printf "Name=gpu File=/dev/%s\n" null zero >"$dir/gres.conf" # any devices will do
}

start_slurm() {
    mkdir -p "$dir/state" "$dir/spool" "$dir/munge"
    (umask 077 && dd if=/dev/urandom of="$dir/munge/key" bs=1024 count=1 2>/dev/null)
    chmod 711 "$dir" "$dir/munge"
    munged --force --key-file "$dir/munge/key" --socket "$dir/munge/socket" --pid-file "$dir/munged.pid" \
        --log-file "$dir/munge/log" --seed-file "$dir/munge/seed" >"$dir/munged.log" 2>&1 || skip "munged does not start: $(tail -n 1 "$dir/munged.log")"
    write_configuration
    slurmctld -f "$SLURM_CONF" >"$dir/start.log" 2>&1 && slurmd -f "$SLURM_CONF" >>"$dir/start.log" 2>&1 ||
        skip "Slurm does not start: $(tail -n 1 "$dir/start.log")"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        [ "$(sinfo -h -o %t 2>/dev/null)" != idle ] || return 0
        sleep 0.5
    done
    skip "the node of Slurm does not become idle: $(tail -n 1 "$dir/slurmctld.log")"
}

dir=$(mktemp -d "${TMPDIR:-/tmp}/slurm-XXXXXX")
SLURM_CONF=$dir/slurm.conf
export SLURM_CONF
trap stop_slurm EXIT
trap 'exit 1' HUP INT TERM
PATH=$PATH:/usr/sbin:/sbin
{ command -v slurmctld && command -v slurmd && command -v srun && command -v munged; } >/dev/null || install_slurm
start_slurm
srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no PMIx plugin"
"$@"
