"""Makes any rich output printable, whatever the console's encoding and whatever a name in a log holds.

rich replaces its own boxes where the encoding is not Unicode, but not what we put inside them: a run called "größe"
would end in a `UnicodeEncodeError`. `Printable` swaps every character the encoding lacks for one it has, keeping the
width. Nor does rich take out an escape character, which would let a name in a log give orders to the terminal:
`Harmless` does.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

_NEAREST = str.maketrans(
    {"\u2013": "-", "\u2014": "-", "…": ".", "\u00d7": "x", "±": "~", "²": "2", "≥": ">", "≤": "<", "•": "*"}
)
_CONTROLS = {code: "?" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


class Printable:
    """A renderable around another one."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            if segment.control or not options.ascii_only:
                yield segment
            else:
                yield Segment(printable(segment.text, options.encoding), segment.style)


class Harmless:
    """A renderable around another one, whose text has no control characters; colours are rich's own."""

    def __init__(self, renderable: RenderableType) -> None:
        self.renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.renderable, options):
            yield segment if segment.control else Segment(segment.text.translate(_CONTROLS), segment.style)


def printable(text: str, encoding: str) -> str:
    """The text with only what the encoding can hold, cell for cell."""
    try:
        text.encode(encoding)
    except LookupError:
        encoding = "ascii"
    except UnicodeEncodeError:
        pass
    else:
        return text
    return "".join(_nearest(character, encoding) for character in text)


def _nearest(character: str, encoding: str) -> str:
    for candidate in (character, character.translate(_NEAREST)):
        try:
            candidate.encode(encoding)
        except UnicodeEncodeError:
            continue
        return candidate
    return "?" * cell_len(character)
