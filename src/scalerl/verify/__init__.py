"""Verifiers: an answer against a reference. No torch here, and sympy only in processes of its own.

    from scalerl.verify import build_verifier
    build_verifier("math").verify(r"So it is \\boxed{\\frac{1}{2}}.", "0.5").status

`verdict` has the protocol, `build` the list of kinds; one file for each kind. `pool` and `process` keep what may hang
in processes of its own, `sandbox` and `bubblewrap` keep programs that a model wrote from doing harm.
"""

from scalerl.verify.build import KINDS, OPTIONS, Kind, build_verifier
from scalerl.verify.verdict import STATUSES, Status, Verdict, Verifier

__all__ = ["KINDS", "OPTIONS", "STATUSES", "Kind", "Status", "Verdict", "Verifier", "build_verifier"]
