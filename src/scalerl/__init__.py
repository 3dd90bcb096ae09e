"""ScaleRL: forecastable reinforcement-learning post-training.

    from scalerl import Series, fit, forecast, decide
    curve = Series.of(gpu_hours, pass_rate)
    print(fit(curve))

Names are loaded when first used, so that the command line starts without numpy and scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalerl.curves import Fit, backtest, compare, decide, fit, forecast, marginal_gains, reach
    from scalerl.errors import InputError, MissingDependencyError, ScaleRLError
    from scalerl.series import Series, StartValue

__version__ = "0.1.0"

__all__ = [
    "Fit",
    "InputError",
    "MissingDependencyError",
    "ScaleRLError",
    "Series",
    "StartValue",
    "__version__",
    "backtest",
    "compare",
    "decide",
    "fit",
    "forecast",
    "marginal_gains",
    "reach",
]

_HOMES = {
    "scalerl.curves": ("Fit", "backtest", "compare", "decide", "fit", "forecast", "marginal_gains", "reach"),
    "scalerl.errors": ("InputError", "MissingDependencyError", "ScaleRLError"),
    "scalerl.series": ("Series", "StartValue"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'scalerl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
