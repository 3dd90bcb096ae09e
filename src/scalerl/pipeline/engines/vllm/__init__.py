"""vLLM as an `Engine`: it runs in processes of its own and decodes while the caller does other work.

`engine` is the protocol, `drafts` the rollouts under way, `server` vLLM itself, `start` how it is started and what it
says when it cannot, `worker` the part that runs inside vLLM, `checks` what is found out before anything is started.
vLLM is imported inside functions of `server` and `start` only: importing this package costs nothing.
"""

from scalerl.pipeline.engines.vllm.engine import VllmEngine
from scalerl.pipeline.engines.vllm.server import VllmServer
from scalerl.pipeline.engines.vllm.start import VllmOptions

__all__ = ["VllmEngine", "VllmOptions", "VllmServer"]
