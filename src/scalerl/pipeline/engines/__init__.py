"""Engines: what writes rollouts. Each is an `Engine` of `scalerl.pipeline.types`, in a file of its own."""

from scalerl.pipeline.engines.embedded import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
