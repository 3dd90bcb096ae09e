"""The recipe's ingredients as pure torch functions: no I/O, no processes, no models.

`build_recipe` (or `recipe_of` for a whole run) gives a `Recipe`; the pipeline needs nothing else from here but the data
it passes in. One file for each axis: losses, aggregation, advantages, filters, length, curriculum, precision.
"""

from scalerl.recipe.build import Plan, Recipe, Rollouts, build_recipe, recipe_of
from scalerl.recipe.curriculum import Curriculum
from scalerl.recipe.inputs import Loss, LossInputs, LossOutputs, LossStats
from scalerl.recipe.logprobs import logprobs_and_entropy, token_logprobs
from scalerl.recipe.precision import fp32_logits, frozen_fp32_head, head_precision

__all__ = [
    "Curriculum",
    "Loss",
    "LossInputs",
    "LossOutputs",
    "LossStats",
    "Plan",
    "Recipe",
    "Rollouts",
    "build_recipe",
    "fp32_logits",
    "frozen_fp32_head",
    "head_precision",
    "logprobs_and_entropy",
    "recipe_of",
    "token_logprobs",
]
