"""Problems as prompts of a policy and responses as texts of a task: chat template, tags of thinking, the end of a turn.

Used wherever text meets tokens: the engine's settings, prompts, and the generator before it asks a verifier. Tasks know
one mark, `</think>`; whatever tag a policy closes its thinking with is that mark for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from scalerl.config.chat import PROBLEM, Chat
from scalerl.errors import InputError
from scalerl.policy.mark import Mark, mark_of
from scalerl.policy.text import encode_phrase, encode_prompt, encode_text, end_of_text
from scalerl.tasks import END_THINK

_KEY = "scale.chat.template"
_PROBE = "scalerl"
"""An assistant's words, to see what the template writes after them."""


class Dialogue:
    """One policy's way of being asked and of answering."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, chat: Chat) -> None:
        self._tokenizer = tokenizer
        self._chat = chat
        if chat.template == "model" and not tokenizer.chat_template:
            where = str(tokenizer.name_or_path) or None
            raise InputError(_KEY, "model", "none: the policy's tokenizer has no chat template", where)

    def prompt(self, problem: str) -> str:
        """What the policy reads."""
        text = self._chat.pattern.replace(PROBLEM, problem)
        if self._chat.template == "model":
            text = self._rendered([*self._system, {"role": "user", "content": text}], add_generation_prompt=True)
        tag = self._chat.begin_thinking
        return text if not self._chat.opened or text.rstrip().endswith(tag) else text + tag

    def encode(self, problem: str) -> tuple[int, ...]:
        """Its tokens. A chat template writes the beginning of the text itself; elsewhere the tokenizer may add it."""
        text = self.prompt(problem)
        return (encode_text if self._chat.template == "model" else encode_prompt)(self._tokenizer, text)

    @cached_property
    def end_thinking(self) -> Mark:
        """The closing tag, however it is written."""
        return mark_of(self._tokenizer, self._chat.end_thinking)

    @cached_property
    def end_thinking_ids(self) -> tuple[int, ...]:
        return encode_phrase(self._tokenizer, self._chat.end_thinking)

    def phrase_ids(self, phrase: str) -> tuple[int, ...]:
        """An interruption phrase, closing the thinking with the policy's own tag."""
        return encode_phrase(self._tokenizer, phrase.replace(END_THINK, self._chat.end_thinking))

    @cached_property
    def end_of_response(self) -> int:
        """The token that ends a response: where the template closes a turn with a special token that one, as Gemma's
        <end_of_turn>; otherwise the end of text."""
        return end_of_text(self._tokenizer) if (found := self._end_of_turn()) is None else found

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Responses as the tasks read them."""
        if self._special_ids & set(self.end_thinking_ids):
            return [self._around_tag(list(row)) for row in rows]
        texts: list[str] = self._tokenizer.batch_decode([list(row) for row in rows], skip_special_tokens=True)
        return [text.replace(self._chat.end_thinking, END_THINK) for text in texts]

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        """What decoding leaves out: the tokens with a role, and others that were added as special."""
        added = (token for token, word in self._tokenizer.added_tokens_decoder.items() if word.special)
        return frozenset((*self._tokenizer.all_special_ids, *added))

    @property
    def _system(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self._chat.system}] if self._chat.system else []

    def _rendered(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        try:
            options: dict[str, Any] = {"add_generation_prompt": add_generation_prompt, **self._chat.options}
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, **options)
        except (TemplateError, TypeError, ValueError) as error:
            allowed = "messages and options that the policy's chat template takes"
            raise InputError(f"{_KEY} ({error})", "model", allowed) from None
        assert isinstance(text, str)
        return text

    def _end_of_turn(self) -> int | None:
        if self._chat.template != "model":
            return None
        messages = [*self._system, {"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
        text = self._rendered(messages, add_generation_prompt=False)
        after = encode_text(self._tokenizer, text.rpartition(_PROBE)[2].lstrip())
        return after[0] if after and after[0] in self._special_ids else None

    def _around_tag(self, row: list[int]) -> str:
        """Where the tag is a special token, which `skip_special_tokens` would drop: each part apart."""
        tag, parts, start = list(self.end_thinking_ids), [], 0
        for place in range(len(row) - len(tag) + 1):
            if row[place : place + len(tag)] == tag and place >= start:
                parts.append(row[start:place])
                start = place + len(tag)
        parts.append(row[start:])
        return END_THINK.join(self._tokenizer.batch_decode(parts, skip_special_tokens=True))
