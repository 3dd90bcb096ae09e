"""The character tokenizer: what it writes, what it refuses, and that Hugging Face loads it back."""

from pathlib import Path

import pytest

pytest.importorskip("transformers")

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from scalerl.errors import InputError
from scalerl.policy import EOS, PAD, build_character_tokenizer
from scalerl.policy.tokenizer import MARKERS, character_tokenizer, unwritable
from scalerl.tasks import END_THINK, PRINTABLE_CHARACTERS, TASK_CHARACTERS, THINK, build_task, seeded, traced


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> PreTrainedTokenizerFast:
    folder = build_character_tokenizer(tmp_path_factory.mktemp("tokenizer") / "new", context=77)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return tokenizer


def test_one_token_a_character_and_a_marker(loaded: PreTrainedTokenizerFast) -> None:
    text = f"3+14={THINK}3+14=17{END_THINK}17{EOS}"
    tokens = loaded(text)["input_ids"]
    assert loaded.convert_ids_to_tokens(tokens) == [*"3+14=", THINK, *"3+14=17", END_THINK, *"17", EOS]
    assert loaded.get_vocab() == {token: i for i, token in enumerate((*MARKERS, *TASK_CHARACTERS))}


@settings(deadline=None)
@given(parts=st.lists(st.sampled_from([*MARKERS, *TASK_CHARACTERS])))
def test_round_trip(loaded: PreTrainedTokenizerFast, parts: list[str]) -> None:
    text = "".join(parts)
    tokens = loaded(text)["input_ids"]
    assert len(tokens) == len(parts)
    assert loaded.decode(tokens) == text
    bare = text.replace(PAD, "").replace(EOS, "")
    assert loaded.decode(tokens, skip_special_tokens=True) == bare


@pytest.mark.parametrize("kind", ["chained_sums", "countdown"])
def test_every_generated_task_can_be_written(loaded: PreTrainedTokenizerFast, kind: str) -> None:
    task = traced(build_task(kind))
    for problem in task.problems("train")[:20]:
        text = problem.prompt + task.trace(problem, seeded(0), 0.5)
        assert loaded.decode(loaded(text)["input_ids"]) == text
        assert unwritable(loaded, [text]) == ""


def test_what_engines_ask_for(loaded: PreTrainedTokenizerFast) -> None:
    assert (loaded.pad_token_id, loaded.eos_token_id, loaded.bos_token_id, len(loaded)) == (0, 1, None, 24)
    assert loaded.model_max_length == 77
    batch = loaded(["1+2=", "13+2="], padding=True)
    assert batch["input_ids"][0][0] == loaded.pad_token_id
    assert batch["attention_mask"][0] == [0, 1, 1, 1, 1]


def test_unknown_characters_are_refused_not_dropped(loaded: PreTrainedTokenizerFast) -> None:
    with pytest.raises(Exception, match="UNK"):
        loaded("two")
    assert unwritable(loaded, ["1 two", f"3{EOS}o!"]) == " two!"


def test_words_need_more_characters() -> None:
    words = character_tokenizer(PRINTABLE_CHARACTERS)
    text = "Okay, time is up.\nLet me stop! </think>"
    assert words.decode(words(text)["input_ids"]) == text


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    build_character_tokenizer(tmp_path / "a")
    with pytest.raises(InputError, match=r"the folder exists already; allowed: a new folder"):
        build_character_tokenizer(tmp_path / "a")


@pytest.mark.parametrize("characters", ["", "11"])
def test_bad_vocabularies(characters: str) -> None:
    with pytest.raises(InputError, match="each once"):
        character_tokenizer(characters)
