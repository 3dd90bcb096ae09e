"""Engines: what writes rollouts. Each is an `Engine` of `scalerl.pipeline.types`: `embedded`, and the folder `vllm`.

`open` picks the one that a config names; `checks` is what all of them refuse.
"""

from scalerl.pipeline.engines.embedded import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
