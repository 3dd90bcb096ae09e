"""Secrets taken out of texts that are kept or shown: command lines, messages, the output of other programs.

Called where such a text is about to be written: by the command line, the provenance of a run, the log of a study. Three
signs make a secret: it stands in the environment under a name that says so (WANDB_API_KEY), it stands behind such a
name (`--token X`, `api_key=X`, `?sig=X`, `user:X@host`), or it has the form of a well-known kind of key. The last two
are guesses; what has none of the signs stays. Knows nothing about who keeps the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

HIDDEN = "***"
_SHORTEST = 8
"""A shorter value of the environment may be any word."""
_SECRET_OPTIONS = {"--token", "--webhook"}

_IN_ENVIRONMENT = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|KEY|APIKEY|CREDENTIALS?|WEBHOOK|WEBHOOK_URL|DSN)$", re.IGNORECASE
)
_NAME = (
    r"(?:[\w.-]*[._-])?(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?key)?|private[_-]?key|password|passwd|"
    r"credentials?|(?:auth|access|api|bearer|refresh|hf|hub|wandb)[_-]?token|webhook(?:[_-]?url)?)|token|sig|signature"
)
_NAMED = re.compile(rf"(?<![\w.-])({_NAME})(\s*[=:]\s*['\"]?)([^\s'\"&,;]+)", re.IGNORECASE)
_USER = re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)
_FORMS = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|"
    r"xox[abeprs]-[\w-]{10,}|AKIA[A-Z0-9]{12,}|wandb_v1_\w{16,})"
)
_WEBHOOKS = re.compile(r"(https://(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com/api/webhooks)/)[^\s'\"]+")


def without_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text with `***` in the place of each secret; `environment` defaults to this process's."""
    for value in _known(os.environ if environment is None else environment):
        text = text.replace(value, HIDDEN)
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _WEBHOOKS.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(rf"\1\2{HIDDEN}", text)
    return _FORMS.sub(HIDDEN, text)


def command_without_secrets(words: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """The same for a command line, where an option says what stands behind it."""
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, equals, value = word.partition("=")
        if before in _SECRET_OPTIONS:
            found.append(_hidden(word))
        elif equals and option in _SECRET_OPTIONS:
            found.append(f"{option}={_hidden(value)}")
        else:
            found.append(without_secrets(word, environment))
    return found


def _hidden(value: str) -> str:
    """Of an address the host may be known; the path of a webhook is its key."""
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        return HIDDEN
    return f"{parts.scheme}://{host}/{HIDDEN}" if parts.scheme in {"http", "https"} and host else HIDDEN


def _known(environment: Mapping[str, str]) -> list[str]:
    """Longest first: one may be part of another."""
    values = {value for name, value in environment.items() if len(value) >= _SHORTEST and _IN_ENVIRONMENT.search(name)}
    return sorted(values, key=len, reverse=True)
