"""The linear-time filter against the dense covariance matrix that it never builds."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from scalerl.curves.noise import Filter, NoiseGrid, Spacing, Whitened
from scalerl.series import FloatArray

SETTINGS = {
    "white only": (0.5, 0.0, 0.0, 0.0),
    "white and wobble": (0.5, 0.02, 0.7, 0.0),
    "white and drift": (0.25, 0.0, 0.0, 0.8),
    "all": (1.0, 0.015, 0.85, 0.3),
    "hardly any white": (0.01, 0.04, 0.5, 0.1),
}


def whiten(y: FloatArray, shapes: FloatArray, at: Spacing, settings: NoiseGrid) -> Whitened:
    return Filter.of(at, settings).whiten(y, shapes)


def grid(*rows: tuple[float, float, float, float]) -> NoiseGrid:
    white, wobble, memory, drift = np.array(rows).T
    return NoiseGrid(white, wobble, memory, drift, np.zeros(len(rows)))


def spacing(size: int, rng: np.random.Generator, even: bool) -> Spacing:
    lag = np.ones(size) if even else rng.uniform(0.2, 5.0, size)
    step = np.full(size, 0.01) if even else rng.uniform(0.001, 0.05, size)
    lag[0] = step[0] = 0.0
    return Spacing(rng.uniform(0.01, 0.03, size), lag, step)


def dense(setting: tuple[float, float, float, float], at: Spacing) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(covariance of the data, covariance of the last wobble with the data, of the last drift with the data)."""
    white, wobble, memory, drift = setting
    position = np.cumsum(at.lag)
    distance = np.abs(position[:, None] - position[None, :])
    ar = wobble**2 * (memory**distance if memory else (distance == 0).astype(float))
    walked = np.cumsum((drift * at.step) ** 2)
    walk = np.minimum(walked[:, None], walked[None, :])
    return np.diag((white * at.sd) ** 2) + ar + walk, ar[-1], walk[-1]


@pytest.mark.parametrize("even", [True, False], ids=["even", "uneven"])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_inner_products_equal_the_dense_ones(setting: tuple[float, float, float, float], even: bool) -> None:
    rng = np.random.default_rng(4)
    size = 12
    at = spacing(size, rng, even)
    y, shapes = rng.standard_normal(size), rng.standard_normal((3, size))
    covariance, wobble_row, drift_row = dense(setting, at)
    inverse = np.linalg.inv(covariance)
    found = whiten(y, shapes, at, grid(setting))
    one = np.ones(size)
    np.testing.assert_allclose(found.log_det[0], np.linalg.slogdet(covariance)[1], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.yy[0], y @ inverse @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.y1[0], y @ inverse @ one, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.c11[0], one @ inverse @ one, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.yg[0], shapes @ inverse @ y, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.g1[0], shapes @ inverse @ one, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.gg[0], np.einsum("jn,nm,jm->j", shapes, inverse, shapes), rtol=1e-8, atol=1e-8)
    rows = np.stack([wobble_row, drift_row])
    columns = np.column_stack([y, one, shapes.T])
    np.testing.assert_allclose(found.state[0], rows @ inverse @ columns, rtol=1e-8, atol=1e-8)
    prior = np.diag([wobble_row[-1], drift_row[-1]])
    np.testing.assert_allclose(found.covariance[0], prior - rows @ inverse @ rows.T, rtol=1e-7, atol=1e-10)


def test_settings_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(5)
    at = spacing(20, rng, even=False)
    y, shapes = rng.standard_normal(20), rng.standard_normal((4, 20))
    together = whiten(y, shapes, at, grid(*SETTINGS.values()))
    for i, setting in enumerate(SETTINGS.values()):
        alone = whiten(y, shapes, at, grid(setting))
        np.testing.assert_allclose(together.gg[i], alone.gg[0], rtol=1e-12)
        np.testing.assert_allclose(together.log_det[i], alone.log_det[0], rtol=1e-12)


def test_independent_series_add_up() -> None:
    rng = np.random.default_rng(6)
    at, setting = spacing(10, rng, even=True), grid(SETTINGS["all"])
    first, second = (whiten(rng.standard_normal(10), rng.standard_normal((2, 10)), at, setting) for _ in range(2))
    total = first + second
    for name in ("log_det", "yy", "y1", "c11", "yg", "g1", "gg"):
        np.testing.assert_allclose(getattr(total, name), getattr(first, name) + getattr(second, name), rtol=1e-14)


def peak_bytes(size: int) -> int:
    rng = np.random.default_rng(7)
    at, y, shapes = spacing(size, rng, even=True), rng.standard_normal(size), rng.standard_normal((5, size))
    settings = grid(*SETTINGS.values())
    tracemalloc.start()
    whiten(y, shapes, at, settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_grows_no_faster_than_the_points() -> None:
    """A dense covariance of 4,000 points would take 128 MB, and 64 times that of 500."""
    peak_bytes(50)
    assert peak_bytes(4000) <= 1.2 * 8 * peak_bytes(500)
