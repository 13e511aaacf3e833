#!/usr/bin/env bash
# A real Slurm of N nodes on this host, without systemd or a database: one controller, one slurmd a node.
#   tests/support/slurm_cluster.sh up FOLDER N     start; everything it writes lies in FOLDER, slurm.conf too
#   tests/support/slurm_cluster.sh down FOLDER     stop what `up` has started
# Needs root and the packages slurm-wlm and munge.
set -euo pipefail
command=${1:?up or down} folder=${2:?folder}

up() {
  local nodes=$1 host
  host=$(hostname -s)
  mkdir -p "$folder"/{state,spool,log,run}
  if ! munge -n >/dev/null 2>&1; then
    install -d -o munge -g munge -m 0755 /run/munge
    runuser -u munge -- munged --pid-file=/run/munge/munged.pid
    cp /run/munge/munged.pid "$folder/run/munged.pid"
  fi
  cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
SlurmctldPort=16917
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd-%n.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
$(for i in $(seq "$nodes"); do
    echo "NodeName=n$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$((17100 + i)) CPUs=4 RealMemory=2000 State=UNKNOWN"
  done)
PartitionName=test Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF="$folder/slurm.conf"
  slurmctld -f "$SLURM_CONF"
  for i in $(seq "$nodes"); do mkdir -p "$folder/spool/n$i"; slurmd -f "$SLURM_CONF" -N "n$i"; done
  for _ in $(seq 150); do
    [ "$(sinfo -h -t idle -o %D 2>/dev/null | awk '{s += $1} END {print s + 0}')" = "$nodes" ] && return 0
    sleep 0.2
  done
  echo "the Slurm test cluster did not start; see $folder/log" >&2
  return 1
}

down() {
  local file
  for file in "$folder"/run/slurmd-*.pid "$folder"/run/slurmctld.pid "$folder"/run/munged.pid; do
    if [ -s "$file" ]; then kill "$(cat "$file")" 2>/dev/null || true; fi
  done
}

"$command" "${@:3}"
