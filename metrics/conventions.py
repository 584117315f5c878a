"""Named conventions of published code on counterfactual prompting, and our own.

"cfprompt" is the package of that name (nats, two-sided, no intercept); "paper" the scripts of
the paper (bits, one-sided, log-odds, phi = 0 where it does not exist).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Preset:
    """Conventions of one school.

    Attributes
    ----------
    base : float
        Of the logarithms of KL, JSD and mutual information.
    clip : float or None
        Floor under probabilities.
    per_item_test, aggregate_test : str
        Test of KL, JSD and log-odds; test of flip rate, mutual information and phi.
    two_sided : bool
    plus_one : bool
        In the bootstrap p.
    undefined_phi : float
    n_resamples : int
    response : str
        Of the direction regression, as are the next two.
    intercept : bool
    published_tails : bool
    """

    base: float
    clip: float | None
    per_item_test: str
    aggregate_test: str
    two_sided: bool
    plus_one: bool
    undefined_phi: float
    n_resamples: int
    response: str
    intercept: bool
    published_tails: bool


PRESETS = {
    "default": Preset(
        2.0, None, "permutation", "permutation", False, True, float("nan"), 9999,
        "log_odds", True, False,
    ),
    "cfprompt": Preset(
        float(np.e), 1e-12, "t", "bootstrap", True, False, float("nan"), 10000,
        "log_probability", False, True,
    ),
    "paper": Preset(
        2.0, 1e-12, "t", "bootstrap", False, False, 0.0, 1000, "log_odds", False, True
    ),
}  # fmt: skip
