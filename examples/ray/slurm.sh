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
# What is on the GPUs, for the check as for the run.
GPUS=(--set scale.generator.engine=vllm --set scale.launcher.transfer=direct --set scale.launcher.device=cuda
    --set scale.launcher.trainer_gpus=1 --set scale.launcher.generator_gpus=1)
# Others of the network stay out: a token for this job alone, which srun hands to every node.
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # since Slurm 22.05 srun does not take it from sbatch

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p) # reads all: with pipefail a closed pipe ends the job
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address | cut -d ' ' -f 1):$PORT

# --block: Slurm ends Ray with the job, and the job with Ray.
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --port="$PORT" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
sleep 20
if [ "$SLURM_NNODES" -gt 1 ]; then
    srun --nodes=$((SLURM_NNODES - 1)) --ntasks=$((SLURM_NNODES - 1)) --exclude="$head" \
        ray start --address="$address" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi

# --patience: the other nodes may still be on their way.
on_head=(srun --overlap --nodes=1 --ntasks=1 -w "$head")
"${on_head[@]}" scalerl cluster-check --address "$address" --patience 300 "${GPUS[@]}" --set scale.model.heads=2
"${on_head[@]}" scalerl train --launcher ray --address "$address" --patience 60 "${GPUS[@]}" "$@"
