"""Problems as prompts and responses as texts, with a tokenizer as real models have it: byte-level BPE and ChatML."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerFast

from scalerl.config.chat import Chat
from scalerl.errors import InputError
from scalerl.policy.chat import Dialogue
from scalerl.policy.mark import mark_of
from scalerl.policy.text import encode_text

MakeTokenizer = Callable[..., PreTrainedTokenizerFast]


@pytest.fixture(scope="module")
def tokenizer(chat_tokenizer: MakeTokenizer) -> PreTrainedTokenizerFast:
    return chat_tokenizer()


def test_a_plain_prompt(tokenizer: PreTrainedTokenizerFast) -> None:
    dialogue = Dialogue(tokenizer, Chat(pattern="Q: {problem}\nA:"))
    assert dialogue.prompt("2+3") == "Q: 2+3\nA:"
    assert tokenizer.decode(list(dialogue.encode("2+3"))) == "Q: 2+3\nA:"
    assert dialogue.end_of_response == tokenizer.convert_tokens_to_ids("<|end|>")


def test_a_prompt_in_the_chat_template(tokenizer: PreTrainedTokenizerFast) -> None:
    dialogue = Dialogue(tokenizer, Chat(template="model", system="Be brief.", pattern="{problem} Think first."))
    text = (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n2+3 {x} Think first.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert dialogue.prompt("2+3 {x}") == text
    ids = dialogue.encode("2+3 {x}")
    assert tokenizer.decode(list(ids)) == text
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_start|>")) == 3  # special tokens, not letters


def test_the_end_of_a_turn_is_that_of_the_template(
    tokenizer: PreTrainedTokenizerFast, chat_tokenizer: MakeTokenizer
) -> None:
    dialogue = Dialogue(tokenizer, Chat(template="model"))
    assert dialogue.end_of_response == tokenizer.convert_tokens_to_ids("<|im_end|>")
    words = chat_tokenizer("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}")
    assert Dialogue(words, Chat(template="model")).end_of_response == words.eos_token_id


@pytest.mark.parametrize(("options", "begun"), [({}, "<think>"), ({"opened": True}, "")])
def test_the_opening_tag_is_written_once(
    tokenizer: PreTrainedTokenizerFast, options: dict[str, bool | int | float | str], begun: str
) -> None:
    dialogue = Dialogue(tokenizer, Chat(template="model", opened=True, options=options))
    assert dialogue.prompt("2+3").endswith("assistant\n<think>")
    closed = Dialogue(tokenizer, Chat(template="model", options=options))
    assert dialogue.prompt("2+3") == closed.prompt("2+3") + begun


def test_other_tags_are_the_mark_that_tasks_know(tokenizer: PreTrainedTokenizerFast) -> None:
    chat = Chat(begin_thinking="<reason>", end_thinking="[done]", opened=True)
    dialogue = Dialogue(tokenizer, chat)
    rows = [encode_text(tokenizer, "I think [done] 5<|im_end|>"), encode_text(tokenizer, "no tag")]
    assert dialogue.texts(rows) == ["I think </think> 5", "no tag"]
    assert tokenizer.decode(list(dialogue.phrase_ids("Time is up. </think>"))) == "Time is up. [done]"
    assert dialogue.end_thinking.in_tokens(rows[0])
    assert not dialogue.end_thinking.in_tokens(rows[1])


def test_tags_that_are_special_tokens_are_not_lost(chat_tokenizer: MakeTokenizer) -> None:
    tokenizer = chat_tokenizer(special=("<think>", "</think>"))
    dialogue = Dialogue(tokenizer, Chat(template="model"))
    rows = [encode_text(tokenizer, text) for text in ("2+3</think> 5<|im_end|>", "a</think>b</think>c", "none")]
    assert len(dialogue.end_thinking_ids) == 1
    assert dialogue.texts(rows) == ["2+3</think> 5", "a</think>b</think>c", "none"]


def test_a_mark_is_seen_however_it_is_cut_into_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    """The tag's own tokens are not always those that stand for it in a text: '>\\n' can be one."""
    mark = mark_of(tokenizer, "</think>")
    tag = encode_text(tokenizer, "</think>")
    merged = 0
    for text in ("x.</think>\nAnswer", "a </think>\n\n b", "</think>", "the end.</think>\nAnswer: 12"):
        ids = encode_text(tokenizer, text)
        merged += not any(ids[at : at + len(tag)] == tag for at in range(len(ids)))
        assert mark.in_tokens(ids), text
    assert merged  # a search for the tag's tokens would have missed some
    for text in ("</thin>k>", "< /think>", "</think", "/think>", "think"):
        assert not mark.in_tokens(encode_text(tokenizer, text)), text
    assert not mark.in_tokens(
        [*encode_text(tokenizer, "</thi"), *encode_text(tokenizer, "~"), *encode_text(tokenizer, "nk>")]
    )
    assert len(mark.pieces) < len(tokenizer) / 2


def test_a_tokenizer_without_template(chat_tokenizer: MakeTokenizer) -> None:
    with pytest.raises(InputError, match=r"scale\.chat\.template.*no chat template"):
        Dialogue(chat_tokenizer(None), Chat(template="model"))


def test_a_template_that_refuses_the_messages(chat_tokenizer: MakeTokenizer) -> None:
    strict = chat_tokenizer("{{ raise_exception('no system message') }}")
    with pytest.raises(InputError, match=r"scale\.chat\.template \(no system message\)"):
        Dialogue(strict, Chat(template="model", system="x")).prompt("2+3")
