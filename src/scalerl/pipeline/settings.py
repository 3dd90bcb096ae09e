"""What an engine needs to know, taken from a run's config and the policy's tokenizer.

Called where generators are put together, for training and for evaluation.
"""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase

from scalerl.config import InterruptionWindow, RunConfig
from scalerl.pipeline.types import EngineSettings
from scalerl.policy.load import encode_phrase, end_of_text
from scalerl.tasks import END_THINK


def engine_settings(
    run: RunConfig, tokenizer: PreTrainedTokenizerBase, *, temperature: float, fp32: bool
) -> EngineSettings:
    """`temperature` and `fp32` differ between training and evaluation, or between experiments."""
    limits, tokens = run.length, run.scale.tokens
    return EngineSettings(
        rows=run.scale.generator.rows,
        max_response=tokens.response,
        max_prompt=tokens.prompt,
        eos_id=end_of_text(tokenizer),
        end_thinking_ids=encode_phrase(tokenizer, END_THINK),
        phrase_ids=encode_phrase(tokenizer, limits.phrase) if isinstance(limits, InterruptionWindow) else (),
        temperature=temperature,
        fp32_head=fp32,
    )
