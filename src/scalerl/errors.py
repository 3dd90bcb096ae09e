"""Every error scalerl raises on purpose, as one tree.

Who uses this: every layer raises from here, the command line turns any `ScaleRLError` into one line and exit code 2.

How to add one: derive from `ScaleRLError` and from the standard-library type a caller would already catch
(`ValueError`, `ImportError`, ...), say in the docstring when it is raised, and pass all state to `super().__init__` as
positional arguments, so that the error survives pickling between processes.

What a message says: what is wrong, the value found, what is allowed, and where (file and line, or dotted key).
"""


class ScaleRLError(Exception):
    """Base of every error raised on purpose."""


class InputError(ScaleRLError, ValueError):
    """Input that cannot be used: a file, a column, a row, or an option.

    `InputError("duplicate compute", value=100.0, allowed="each compute once", where="run.csv, line 4")`
    """

    def __init__(self, what: str, value: object = None, allowed: str | None = None, where: str | None = None) -> None:
        super().__init__(what, value, allowed, where)
        self.what = what
        self.value = value
        self.allowed = allowed
        self.where = where

    def __str__(self) -> str:
        text = self.what
        if self.value is not None:
            text += f": got {self.value!r}" if isinstance(self.value, str) else f": got {self.value}"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        return text if self.where is None else f"{self.where}: {text}"


class MissingDependencyError(ScaleRLError, ImportError):
    """An optional package is needed for what was asked; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"this needs the package {self.package!r}: pip install 'scalerl[{self.extra}]'"
