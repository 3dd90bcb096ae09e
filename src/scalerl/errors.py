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
            text += f": got {_shown(self.value)}"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        return " ".join((text if self.where is None else f"{self.where}: {text}").splitlines())


def _shown(value: object) -> str:
    try:
        return repr(value) if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or something nested as deep
        return f"a huge {type(value).__name__}"


class MissingDependencyError(ScaleRLError, ImportError):
    """An optional package is needed for what was asked; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"this needs the package {self.package!r}: pip install 'scalerl[{self.extra}]'"


class PortableError(ScaleRLError, RuntimeError):
    """A portable run was asked of a process that was started without its settings (see `portable`)."""

    def __init__(self, key: str, settings: str) -> None:
        super().__init__(key, settings)
        self.key = key
        self.settings = settings

    def __str__(self) -> str:
        return f"{self.key}: the process must be started with these environment variables: {self.settings}"


class StorageError(ScaleRLError, OSError):
    """A file of ours could not be written: the disk is full, a quota is reached, the device failed.

    `StorageError(errno.ENOSPC, "No space left on device", "runs/a/metrics.jsonl")`. What was complete before stays as
    it was; `where` is also the `filename` that OSError knows.
    """

    def __init__(self, number: int | None, reason: str, where: str) -> None:
        super().__init__(number, reason, where)
        self.reason = reason
        self.where = where

    @classmethod
    def of(cls, error: OSError, where: object) -> "StorageError":
        """The same failure, as one of ours."""
        return cls(error.errno, error.strerror or str(error) or type(error).__name__, str(where))

    def __str__(self) -> str:
        return f"{self.where}: cannot be written ({self.reason}); what was saved before is kept"


class GuardError(ScaleRLError, RuntimeError):
    """A guard has stopped the run; everything up to there is saved."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class TrainingError(ScaleRLError, RuntimeError):
    """A step cannot be made: a rollout is too old, or in SFT the loss is not finite. Weights are untouched."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
