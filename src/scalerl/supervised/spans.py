"""Traces as tokens, and which of them are learnt: the assistant's turns with their end-of-turn tokens, nothing else.

Used by `corpus`. Where the assistant's words stand in a rendered conversation is found in the first of three ways that
holds for it:

- The template marks them (`{% generation %}`), one stretch for each turn.
- Differences of renderings: what a turn adds to the conversation before it with its generation prompt. It holds if each
  of these renderings is a beginning of the whole one, and the turn's own words stand in what it added.
- One document for each turn: the prompt as the model will be asked, the words as they stand, the end of the turn.
  Templates that drop the thinking of earlier turns (or of all) are only learnt correctly like this.

Every stretch ends with the token that ends a response in RL (`policy.chat`), so that the model learns to stop.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from scalerl.config.chat import Chat
from scalerl.errors import InputError
from scalerl.policy.chat import Dialogue
from scalerl.policy.text import encode_prompt, encode_text, end_of_text
from scalerl.readers.cells import shorten
from scalerl.supervised.traces import Conversation, Message, Texts, Trace

_BLOCK = re.compile(r"\{%-?\s*generation\s*-?%\}")
_TAG = re.compile(r"\s*(<[^<>\s]+>)")
_PROBE = "scalerl-probe"
"""An assistant's words, to see what the template writes after them."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Document:
    """A sequence of tokens that is seen as a whole and alone."""

    tokens: list[int]
    learnt: list[bool]
    """For each token whether it has a loss. Never the first: nothing predicts it."""
    where: str


class Encoder:
    """One tokenizer's way of writing traces."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, template: bool, options: Mapping[str, Any]) -> None:
        """`template`: apply the chat template, also around plain texts; `options`: its variables."""
        self._tokenizer = tokenizer
        self._template = template
        self._options = dict(options)
        if template and not tokenizer.chat_template:
            where = str(tokenizer.name_or_path) or None
            allowed = "none, because the tokenizer has no chat template"
            raise InputError("template", "model", allowed, where)
        self._end = self._end_of_turn() if template else end_of_text(tokenizer)
        self._end_text = str(tokenizer.decode([self._end]))
        self._marked = template and _BLOCK.search(tokenizer.get_chat_template()) is not None

    def documents(self, trace: Trace) -> list[Document]:
        """Usually one; one for each turn of the assistant where the template demands it."""
        if not self._template:
            if isinstance(trace, Texts):
                return [self._plain(trace)]
            raise InputError(
                "messages without a chat template", allowed="plain texts, or template=model", where=trace.where
            )
        talk = trace.as_conversation() if isinstance(trace, Texts) else trace
        whole = (self._by_marks(talk) if self._marked else None) or self._by_differences(talk)
        return [whole] if whole is not None else [self._by_hand(talk, turn) for turn in talk.turns]

    def _plain(self, trace: Texts) -> Document:
        """Prompt and answer apart, as RL has them: the policy answers after the tokens of the prompt alone."""
        prompt = encode_prompt(self._tokenizer, trace.prompt)
        answer = (*encode_text(self._tokenizer, trace.completion), self._end)
        return _document([*prompt, *answer], [False] * len(prompt) + [True] * len(answer), trace.where)

    def _by_marks(self, talk: Conversation) -> Document | None:
        """None: the template marks something else than turns."""
        try:
            found: Any = self._tokenizer.apply_chat_template(
                [*talk.messages], tools=[*talk.tools] or None, return_dict=True, return_assistant_tokens_mask=True,
                **self._options,
            )  # fmt: skip
        except (TemplateError, TypeError, ValueError) as error:
            raise _unrendered(error, talk) from None
        tokens = [*found["input_ids"]]
        learnt = [bool(value) for value in found["assistant_masks"]]
        ends = [i for i in range(1, len(tokens) + 1) if learnt[i - 1] and (i == len(tokens) or not learnt[i])]
        if len(ends) != len(talk.turns):
            return None
        for end in ends:
            if tokens[end - 1] != self._end and end < len(tokens) and tokens[end] == self._end:
                learnt[end] = True
        return self._ended(tokens, learnt, talk.where)

    def _by_differences(self, talk: Conversation) -> Document | None:
        """None: renderings are no beginnings of one another, or words of the assistant are dropped."""
        text = self._rendered(talk, talk.messages)
        spans: list[Span] = []
        for turn in talk.turns:
            before = self._rendered(talk, talk.messages[:turn], prompt=True)
            until = self._rendered(talk, talk.messages[: turn + 1])
            added, words = until[len(before) :], str(talk.messages[turn]["content"]).strip()
            if not (text.startswith(until) and until.startswith(before) and words in added):
                return None
            spans.append((len(before), len(before) + self._end_after(added, words)))
        return self._encoded(text, spans, talk.where)

    def _by_hand(self, talk: Conversation, turn: int) -> Document:
        message = talk.messages[turn]
        if odd := sorted(message.keys() - {"role", "content"}):
            what = f"the chat template shows {', '.join(odd)} of a message differently from turn to turn"
            raise InputError(what, allowed="messages with role and content", where=talk.where)
        earlier = talk.messages[:turn]
        before = self._rendered(talk, earlier, prompt=True)
        probed = self._rendered(talk, (*earlier, {"role": "assistant", "content": _PROBE}))
        ending = probed.rpartition(_PROBE)[2]
        answer = _without_opened_tag(before, message["content"]) + ending[: self._end_after(ending, "")]
        return self._encoded(before + answer, [(len(before), len(before) + len(answer))], talk.where)

    def _encoded(self, text: str, spans: Sequence[Span], where: str) -> Document:
        try:
            found = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        except NotImplementedError:
            kind = type(self._tokenizer).__name__
            raise InputError("the tokenizer does not say where its tokens stand", kind, "a fast tokenizer") from None
        tokens = [*found["input_ids"]]
        learnt, last = [], 0
        for _, end in found["offset_mapping"]:
            # Some tokenizers leave the spaces before a word out of its place: a token begins where the one before ends.
            start, last = last, max(last, end)
            learnt.append(any(a <= start and a < last <= b for a, b in spans))
        return self._ended(tokens, learnt, where)

    def _ended(self, tokens: list[int], learnt: list[bool], where: str) -> Document:
        """A template that leaves the end of the last turn out would never teach the model to stop."""
        if learnt[-1] and tokens[-1] != self._end:
            tokens, learnt = [*tokens, self._end], [*learnt, True]
        return _document(tokens, learnt, where)

    def _end_after(self, added: str, words: str) -> int:
        """Where a turn ends: with the token that ends it. What templates put behind it, no model ever writes."""
        place = added.find(self._end_text, added.find(words) + len(words))
        return len(added) if place < 0 else place + len(self._end_text)

    def _rendered(self, talk: Conversation, messages: Sequence[Message], *, prompt: bool = False) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                [*messages], tools=[*talk.tools] or None, tokenize=False, add_generation_prompt=prompt, **self._options
            )
        except (TemplateError, TypeError, ValueError) as error:
            raise _unrendered(error, talk) from None
        assert isinstance(text, str)
        return text

    def _end_of_turn(self) -> int:
        return Dialogue(self._tokenizer, Chat(template="model", options=self._options)).end_of_response


def _document(tokens: list[int], learnt: list[bool], where: str) -> Document:
    learnt = [False, *learnt[1:]]
    if not any(learnt):
        raise InputError("a trace without a token to learn", shorten(str(tokens)), "an answer after a prompt", where)
    return Document(tokens, learnt, where)


def _without_opened_tag(before: str, answer: str) -> str:
    """Where the prompt ends with the tag that the answer begins with (`<think>`), it stands there once."""
    found = _TAG.match(answer)
    if found is None or not before.rstrip().endswith(found[1]):
        return answer
    return answer[found.end() :].removeprefix(before[len(before.rstrip()) :])


def _unrendered(error: Exception, talk: Conversation) -> InputError:
    reason = str(error).partition("\n")[0]
    return InputError(
        f"the chat template refuses a trace ({reason})", allowed="messages that it takes", where=talk.where
    )
