"""The training pipeline: generator, buffer, trainer, evaluation and the launchers that drive them.

It needs the extra `train`. It writes a run directory (`scalerl.runs`) and never imports `scalerl.curves`: fitting what
comes out is done by whoever reads the run.
"""
