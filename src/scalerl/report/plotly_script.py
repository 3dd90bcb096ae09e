"""plotly.js for the page: the copy inside the plotly package, made lighter to keep and quicker to open.

Called by `page`. Three things are done to the 4.8 MB bundle. It starts fifty kinds of traces (maps, 3D, ...) when it is
loaded, which takes a browser longer than everything else in a report; scatter plots are part of its core, so the list
at its very end is emptied. The function around it all gets parentheses, which tell V8 to compile it at once instead of
parsing it twice. Where a later version of plotly looks different, it is used as it is. And in a file it is compressed,
which makes the file a third of the size; the page unpacks it (`load.js`).
"""

from __future__ import annotations

import base64
import gzip
import re
from functools import cache
from importlib.resources import files

_OTHER_KINDS = re.compile(r"(\w+)\.register\(\[(?:\w+\(\),?)+\]\);(\w+)\.exports=\1\}\);return ")

_FACTORY = ": this, () => {"


@cache
def plotly_script() -> str:
    """Read as a file: importing plotly for it would take a second."""
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")
    return eager(core_only(script))


@cache
def packed_script() -> str:
    """The same as gzip in base64."""
    return base64.b64encode(gzip.compress(plotly_script().encode(), 6, mtime=0)).decode()


def eager(script: str) -> str:
    """The function that holds the whole bundle, `(root, () => {...})`, in parentheses."""
    begin, end = script.find(_FACTORY, 0, 2_000), script.rstrip().removesuffix("}));")
    if begin < 0 or end == script.rstrip():
        return script
    inner = begin + len(_FACTORY)
    return f"{script[:begin]}: this, (() => {{{end[inner:]}}})));\n"


def core_only(script: str) -> str:
    """The script without the last module's list of further trace types."""
    return _OTHER_KINDS.sub(r"\2.exports=\1});return ", script)
