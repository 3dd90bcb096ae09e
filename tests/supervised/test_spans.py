"""What is learnt of a trace: the assistant's turns with their ends, whatever the template does."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from hypothesis import given
from hypothesis import strategies as st

from scalerl.errors import InputError
from scalerl.supervised.spans import Document, Encoder
from scalerl.supervised.traces import Conversation, Texts

from .small import (
    CHATML,
    CLOSED,
    END,
    FORGETFUL,
    MARKED,
    MARKED_WITHOUT_END,
    OPENED,
    UNENDED,
    new_tokenizer,
)

FIRST = "<think>3 + 4 = 7</think>The answer is 7."
SECOND = "<think>check</think>Yes."
TURNS = ("What is 3 + 4?", FIRST, "Sure?", SECOND)


def talk(*texts: str) -> Conversation:
    roles = ("user", "assistant")
    return Conversation(tuple({"role": roles[i % 2], "content": t} for i, t in enumerate(texts)), (), "a.jsonl, line 1")


def encoder(template: str | None, **options: Any) -> Encoder:
    return Encoder(new_tokenizer(template), template=template is not None, options=options)


def learnt(document: Document, template: str | None = CHATML) -> str:
    chosen = [token for token, wanted in zip(document.tokens, document.learnt, strict=True) if wanted]
    return str(new_tokenizer(template).decode(chosen))


def text(document: Document) -> str:
    return str(new_tokenizer().decode(document.tokens))


@pytest.mark.parametrize(
    "template", [CHATML, MARKED, MARKED_WITHOUT_END], ids=["differences", "marks", "marks, no end"]
)
def test_every_turn_of_the_assistant_with_its_end(template: str) -> None:
    (document,) = encoder(template).documents(talk(*TURNS))
    assert learnt(document) == f"{FIRST}{END}{SECOND}{END}"
    assert text(document).startswith("<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n<think>3")


def test_marks_and_differences_agree() -> None:
    one, same = (encoder(template).documents(talk(*TURNS))[0] for template in (CHATML, MARKED))
    assert (one.tokens, one.learnt) == (same.tokens, same.learnt)


def test_a_template_that_drops_earlier_thinking_gives_a_document_for_each_turn() -> None:
    first, second = encoder(FORGETFUL).documents(talk(*TURNS))
    assert learnt(first) == FIRST + END
    assert learnt(second) == SECOND + END
    assert "3 + 4 = 7" not in text(second)  # as the model will see it when it is asked the second question
    assert "The answer is 7." in text(second)


def test_a_template_that_opens_the_thinking_and_drops_it() -> None:
    (document,) = encoder(OPENED).documents(talk("Hi?", "<think>\nwell</think>Hello."))
    assert text(document) == f"<|im_start|>user\nHi?{END}\n<|im_start|>assistant\n<think>\nwell</think>Hello.{END}"
    assert learnt(document) == f"well</think>Hello.{END}"


def test_a_template_without_the_last_end_still_teaches_to_stop() -> None:
    (document,) = encoder(UNENDED).documents(talk("Hi?", "Hello."))
    assert learnt(document) == f"Hello.{END}"


def test_what_stands_behind_the_end_is_not_learnt() -> None:
    """A token that closes the conversation: not after the answer, and not between turns, where it is not shown."""
    (document,) = encoder(CLOSED).documents(talk("Hi?", "Hello."))
    assert learnt(document) == f"Hello.{END}"
    assert text(document).endswith(f"{END}\n<|pad|>")
    first, second = encoder(CLOSED).documents(talk(*TURNS))
    assert (learnt(first), learnt(second)) == (FIRST + END, SECOND + END)


def test_plain_texts_become_one_question_and_one_answer() -> None:
    (chat,) = encoder(CHATML).documents(Texts("Hi?", "Hello.", "x"))
    assert (text(chat), learnt(chat)) == (
        f"<|im_start|>user\nHi?{END}\n<|im_start|>assistant\nHello.{END}\n",
        f"Hello.{END}",
    )
    (plain,) = encoder(None).documents(Texts("Hi?", "Hello.", "x"))
    assert (text(plain), learnt(plain)) == (f"Hi?Hello.{END}", f"Hello.{END}")


def test_options_reach_the_template() -> None:
    template = "{{ mood }}" + CHATML
    (document,) = encoder(template, mood="calm").documents(talk("Hi?", "Hello."))
    assert text(document).startswith("calm<|im_start|>")


@given(st.lists(st.text(min_size=1).filter(lambda t: t.strip() == t and "<|" not in t), min_size=2, max_size=2))
def test_any_words_are_found(words: list[str]) -> None:
    """Also where letters are several tokens, and where the words stand in the question too."""
    (document,) = encoder(CHATML).documents(talk("Hi?", words[0], words[0], words[1]))
    assert learnt(document) == f"{words[0]}{END}{words[1]}{END}"


def test_what_cannot_be_rendered_is_named_with_its_line() -> None:
    picky = "{% if messages|length > 2 %}{{ raise_exception('one question only') }}{% endif %}" + CHATML
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: the chat template refuses a trace \(one question only\)"):
        encoder(picky).documents(talk(*TURNS))


def test_messages_need_a_template() -> None:
    with pytest.raises(InputError, match="messages without a chat template"):
        encoder(None).documents(talk("Hi?", "Hello."))
    with pytest.raises(InputError, match="because the tokenizer has no chat template"):
        Encoder(new_tokenizer(None), template=True, options={})
