"""Devices by name: what their makers publish, and where. None of the GPUs was ever measured by us.

Read by `question`. Figures are peaks: dense bfloat16 without sparsity; Gb/s is
the network card beside each GPU. What a program gets out of them is an assumption
of its own (`question.Assumptions`).
"""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.errors import InputError


@dataclass(frozen=True)
class Device:
    """One GPU, or one core of a CPU."""

    name: str
    flops: float
    """Multiplications and additions a second, dense, in the number format that is trained in."""
    bandwidth: float
    """Bytes a second from its memory."""
    memory: float
    """Bytes."""
    link: float
    """Bytes a second in one direction to devices of another machine: what new weights travel through."""
    parameter_bytes: float
    """Of one parameter in the generator."""
    source: str


_KLOCKWOOD = "collected at glennklockwood.com/garden/processors"
HARDWARE: dict[str, Device] = {
    device.name: device
    for device in (
        Device("a100", 312e12, 2.039e12, 80e9, 25e9, 2.0,
               "NVIDIA A100 datasheet, 80GB SXM: 312 TFLOPS, 2,039 GB/s; 200 Gb/s"),
        Device("h100", 989.4e12, 3.35e12, 80e9, 50e9, 2.0,
               f"NVIDIA H100 datasheet, SXM: 989 TFLOPS, 80 GB, 3.35 TB/s ({_KLOCKWOOD}/h100); 400 Gb/s"),
        Device("h200", 989.4e12, 4.8e12, 141e9, 50e9, 2.0,
               "NVIDIA H200 datasheet, SXM: 989 TFLOPS, 141 GB, 4.8 TB/s; 400 Gb/s"),
        Device("b200", 2.25e15, 8.0e12, 180e9, 50e9, 2.0,
               f"NVIDIA DGX B200, a GPU of 8: 1,440 GB, 64 TB/s; 2,250 TFLOPS ({_KLOCKWOOD}/B200); 400 Gb/s"),
        Device("gb200", 2.5e15, 8.0e12, 186e9, 50e9, 2.0,
               f"NVIDIA GB200 NVL72, a GPU of 72: 13.4 TB, 576 TB/s; 2,500 TFLOPS ({_KLOCKWOOD}/B200); 400 Gb/s"),
        Device("cpu-core", 70e9, 10e9, 4e9, 2e9, 4.0,
               "one core of the machine that scalerl was developed on: float32 GEMM measured, the rest rough"),
    )
}  # fmt: skip


def device_named(name: str, where: str = "--hardware") -> Device:
    if name not in HARDWARE:
        raise InputError(where, name, ", ".join(HARDWARE))
    return HARDWARE[name]
