"""A verifier from its name and its options: the door for the tasks.

build_verifier("number", tolerance=1e-3).verify("The answer is 3.1416.", "3.14159").status
"""

from __future__ import annotations

from typing import Literal, get_args

from scalerl.verify.choice import ChoiceVerifier
from scalerl.verify.exact import ExactVerifier
from scalerl.verify.number import NumberVerifier
from scalerl.verify.programs import CodeVerifier
from scalerl.verify.sandbox import Limits
from scalerl.verify.symbolic import MathVerifier
from scalerl.verify.verdict import Verifier

Kind = Literal["exact", "number", "choice", "math", "code"]
KINDS: tuple[Kind, ...] = get_args(Kind)

OPTIONS: dict[str, tuple[Kind, ...]] = {
    "tolerance": ("number",),
    "absolute_tolerance": ("number",),
    "timeout_s": ("math", "code"),
    "workers": ("math", "code"),
    "memory_mb": ("code",),
    "run_model_code_without_sandbox": ("code",),
}
"""Who has which option."""


def build_verifier(
    kind: Kind,
    *,
    tolerance: float = 0.0,
    absolute_tolerance: float = 0.0,
    timeout_s: float = 5.0,
    workers: int = 0,
    memory_mb: int = 512,
    run_model_code_without_sandbox: bool = False,
) -> Verifier:
    """Refuses at once what could not work: `code` without a sandbox, `math` without math-verify."""
    match kind:
        case "exact":
            return ExactVerifier()
        case "number":
            return NumberVerifier(tolerance, absolute_tolerance)
        case "choice":
            return ChoiceVerifier()
        case "math":
            return MathVerifier(timeout_s, workers)
        case "code":
            limits = Limits(cpu_s=timeout_s, memory_mb=memory_mb)
            return CodeVerifier(limits, workers, run_model_code_without_sandbox)
