"""What an engine is told: sizes of the scale, tokens of the tokenizer, and what its caller asks for."""

from collections.abc import Callable

from scalerl.config import RunConfig
from scalerl.pipeline.settings import engine_settings
from scalerl.policy.load import encode_phrase, end_of_text
from scalerl.policy.tokenizer import character_tokenizer

MakeRun = Callable[..., RunConfig]


def test_the_settings_of_an_engine(make_run: MakeRun) -> None:
    tokenizer = character_tokenizer()
    settings = engine_settings(make_run(), tokenizer, temperature=0.5, fp32=True)
    assert (settings.rows, settings.max_prompt, settings.max_response) == (10, 6, 18)
    assert (settings.temperature, settings.fp32_head) == (0.5, True)
    assert settings.eos_id == end_of_text(tokenizer)
    assert settings.phrase_ids == settings.end_thinking_ids == encode_phrase(tokenizer, "</think>")


def test_a_phrase_of_its_own(make_run: MakeRun) -> None:
    tokenizer = character_tokenizer()
    run = make_run('scale.tokens.interruption_phrase=";</think>"')
    settings = engine_settings(run, tokenizer, temperature=1.0, fp32=False)
    assert tokenizer.convert_ids_to_tokens([*settings.phrase_ids]) == [";", "</think>"]
    assert settings.end_thinking_ids == settings.phrase_ids[1:]


def test_no_phrase_without_interruptions(make_run: MakeRun) -> None:
    run = make_run('recipe.length.kind="none"')
    assert engine_settings(run, character_tokenizer(), temperature=1.0, fp32=False).phrase_ids == ()
