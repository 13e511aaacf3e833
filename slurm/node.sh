#!/usr/bin/env bash
# torchrun on one node of a job; slurm/array.sbatch starts it once a node:
#   srun slurm/node.sh PYTHON ADDRESS PORT WORKERS experiment=... out=...
# Stop signals reach every process of the step. torchrun is not to take notice: it would end the ranks' run within 30
# seconds or die itself, and they save a checkpoint and end by themselves.
set -euo pipefail
python=$1 address=$2 port=$3 workers=$4
shift 4
trap '' USR1 TERM
exec "$python" -m torch.distributed.run --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$workers" --max-restarts=0 \
  --signals-to-handle=SIGINT --rdzv-backend=c10d --rdzv-endpoint="$address:$port" \
  --rdzv-id="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}" --rdzv-conf="is_host=$((SLURM_NODEID == 0))" \
  -m scripts.train --status-in-record "$@"
