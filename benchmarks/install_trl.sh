#!/bin/sh
# Make the environment of TRL for benchmarks/vs_trl.py, from scratch, in a new folder:
#
#     sh benchmarks/install_trl.sh DIR
#     python benchmarks/vs_trl.py --trl-python DIR/bin/python
#
# It is one of its own because TRL brings a version of everything. PYTHON names the interpreter, python3 otherwise.
set -eu

if [ "$#" -ne 1 ]; then
    echo "usage: sh benchmarks/install_trl.sh DIR   (a folder that does not exist yet)" >&2
    exit 2
fi
if [ -e "$1" ]; then
    echo "error: $1 exists already; allowed: a new folder" >&2
    exit 1
fi

"${PYTHON:-python3}" -m venv "$1"
# torch first and pinned: any other specification may pull gigabytes of CUDA packages.
"$1/bin/python" -m pip install --quiet --disable-pip-version-check torch==2.13.0
"$1/bin/python" -m pip install --quiet --disable-pip-version-check trl==1.16.0
"$1/bin/python" -c 'import torch, transformers, trl; print("TRL", trl.__version__, "with torch", torch.__version__, "and transformers", transformers.__version__)'
