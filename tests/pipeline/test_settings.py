"""What an engine is told: sizes of the scale, tokens of the tokenizer, and what its caller asks for."""

from collections.abc import Callable

from scalerl.config import RunConfig
from scalerl.config.chat import Chat
from scalerl.pipeline.settings import engine_settings
from scalerl.policy.chat import Dialogue
from scalerl.policy.text import encode_phrase, end_of_text
from scalerl.policy.tokenizer import character_tokenizer

MakeRun = Callable[..., RunConfig]


def test_the_settings_of_an_engine(make_run: MakeRun) -> None:
    tokenizer = character_tokenizer()
    settings = engine_settings(make_run(), Dialogue(tokenizer, Chat()), temperature=0.5, fp32=True)
    assert (settings.rows, settings.max_prompt, settings.max_response) == (10, 6, 18)
    assert (settings.temperature, settings.fp32_head) == (0.5, True)
    assert settings.eos_id == end_of_text(tokenizer)
    assert settings.phrase_ids == encode_phrase(tokenizer, "</think>")
    assert settings.end_thinking.in_tokens([9, *settings.phrase_ids])
    assert not settings.end_thinking.in_tokens([9, settings.eos_id])


def test_a_phrase_of_its_own(make_run: MakeRun) -> None:
    tokenizer = character_tokenizer()
    run = make_run('scale.tokens.interruption_phrase=";</think>"')
    settings = engine_settings(run, Dialogue(tokenizer, Chat()), temperature=1.0, fp32=False)
    assert tokenizer.convert_ids_to_tokens([*settings.phrase_ids]) == [";", "</think>"]


def test_no_phrase_without_interruptions(make_run: MakeRun) -> None:
    run = make_run('recipe.length.kind="none"')
    assert engine_settings(run, Dialogue(character_tokenizer(), Chat()), temperature=1.0, fp32=False).phrase_ids == ()
