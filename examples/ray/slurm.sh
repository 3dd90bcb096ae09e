#!/usr/bin/env bash
# A run on several nodes under Slurm: Ray on each of them, then one command on the first.
#     sbatch examples/ray/slurm.sh --recipe scalerl --scale my_scale.toml --out /shared/runs/a --generators 12 --trainers 4
# Submitted again with --resume it goes on. Not tried here (no Slurm); the Ray commands are those of the tests.
#SBATCH --job-name=scalerl
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
set -euo pipefail

PORT=${PORT:-6379}
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | cut -d ' ' -f 1):$PORT

# --block: Slurm ends Ray with the job, and the job with Ray.
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port="$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
if [ "$SLURM_NNODES" -gt 1 ]; then
    srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
        ray start --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
    sleep 20
fi

srun --overlap --nodes=1 --ntasks=1 -w "$head" scalerl cluster-check --address "$address"
srun --overlap --nodes=1 --ntasks=1 -w "$head" scalerl train --launcher ray --address "$address" "$@"
