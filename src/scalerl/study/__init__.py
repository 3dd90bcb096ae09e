"""Studies: which choice moves the ceiling, which only the speed? Cells planned, run, resumed, fitted, compared.

`plan` makes jobs of a `StudyConfig`, `execute` runs them through a `Runner`, `race` stops hopeless ones, `analyse`
turns finished jobs into a table of verdicts. Everything is derived from the study's folder: see `folder`.
"""
