"""Capacity planning: a discrete-event simulation of the pipeline at any size, and what it says about time and money.

    Question (model, GPUs, batch, lengths, asynchrony) -> Rates (seconds) -> simulate -> Outcome -> splits, cost, curve

Slots, order of batches and ages are those of training (`scalerl.pipeline.slots` and `schedule`), so what the simulation
says about waiting is what the rules cause. The times are assumptions, unless they come from a measured run. It needs no
torch, prints nothing and draws nothing; called by the command line.
"""

from scalerl.plan.hardware import HARDWARE, Device
from scalerl.plan.lengths import Lengths
from scalerl.plan.outcome import Outcome
from scalerl.plan.question import Assumptions, Question
from scalerl.plan.rates import Rates
from scalerl.plan.simulate import simulate

__all__ = ["HARDWARE", "Assumptions", "Device", "Lengths", "Outcome", "Question", "Rates", "simulate"]
