"""How a problem becomes the policy's prompt, and how its thinking is marked.

Part of `ScaleConfig`; read by `scalerl.policy.chat`, which has the tokenizer. The defaults are those of the small
policies: the problem as it stands, and `<think>` ... `</think>`.
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from scalerl.config.base import Frozen, Name, impossible

PROBLEM = "{problem}"


class Chat(Frozen):
    """From problem to prompt, and from response to answer."""

    template: Literal["none", "model"] = "none"
    """none: the prompt is a plain text, as a base model reads it. model: one user message in the chat template that
    comes with the policy's tokenizer."""
    pattern: str = PROBLEM
    """The text of the prompt, with {problem} where the problem goes; the place for instructions."""
    system: str = ""
    """A system message before it; empty: none, or what the template itself puts there."""
    options: dict[str, bool | int | float | str] = Field(default={})
    """More variables for the template, such as enable_thinking of Qwen3."""
    begin_thinking: Name = "<think>"
    """The tag that opens the thinking."""
    end_thinking: Name = "</think>"
    """The tag that closes it; the answer is what follows. A `</think>` in the interruption phrase becomes this tag."""
    opened: bool = False
    """The prompt ends with the opening tag, so that every response begins inside the thinking."""

    @model_validator(mode="after")
    def _problem_once(self) -> Self:
        if self.pattern.count(PROBLEM) != 1:
            raise impossible("pattern", self.pattern, f"a text with {PROBLEM} in it once")
        return self

    @model_validator(mode="after")
    def _template_for_messages(self) -> Self:
        if self.template == "none" and self.system:
            raise impossible("system", self.system, "empty, because template none knows no messages", "template")
        if self.template == "none" and self.options:
            allowed = "none, because template none has no variables"
            raise impossible("options", ", ".join(self.options), allowed, "template")
        return self

    @model_validator(mode="after")
    def _tags_differ(self) -> Self:
        if self.begin_thinking == self.end_thinking:
            raise impossible("end_thinking", self.end_thinking, "another tag than begin_thinking", "begin_thinking")
        return self
