"""The scaling-law engine: fit, forecast, compare, decide, backtest. Needs numpy and scipy only."""

from scalerl.curves.backtest import backtest
from scalerl.curves.compare import compare, refit_with_ceiling
from scalerl.curves.decide import decide
from scalerl.curves.fit import Fit, fit
from scalerl.curves.forecast import forecast, log_f, marginal_gains, reach
from scalerl.curves.results import (
    Backtest,
    Comparison,
    Decision,
    Diagnostic,
    Estimate,
    Forecast,
    Pair,
    Score,
    TargetForecast,
    WindowFit,
)

__all__ = [
    "Backtest",
    "Comparison",
    "Decision",
    "Diagnostic",
    "Estimate",
    "Fit",
    "Forecast",
    "Pair",
    "Score",
    "TargetForecast",
    "WindowFit",
    "backtest",
    "compare",
    "decide",
    "fit",
    "forecast",
    "log_f",
    "marginal_gains",
    "reach",
    "refit_with_ceiling",
]
