"""Everything that a run imports. Only the process that all others are forked from imports this file."""

import tests.faults.inside
import tests.faults.tampering
import transformers.models.auto.modeling_auto
import transformers.models.llama.modeling_llama

import scalerl.cli.app
import scalerl.cli.live
import scalerl.cli.summary
import scalerl.pipeline.launch.inline
import scalerl.pipeline.launch.local
import scalerl.pipeline.session

__all__ = ["scalerl", "tests", "transformers"]
