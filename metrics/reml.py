"""Fitting of statsmodels' mixed models by restricted maximum likelihood, safely."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from statsmodels.regression.mixed_linear_model import MixedLM


def fit_reml(model: MixedLM) -> Any:
    """Results of a fit that converged to a finite restricted likelihood, or None.

    BFGS comes first: it is precise inside the parameter space. Powell's search follows where BFGS
    fails, at the boundary at which a variance is 0. L-BFGS, the first choice of statsmodels, can
    step onto the boundary and report convergence with an infinite likelihood.
    """
    for method, options in (("bfgs", {"gtol": 1e-7}), ("powell", {"xtol": 1e-8, "ftol": 1e-10})):
        with warnings.catch_warnings():
            # A variance estimated at 0 is a result here, not a reason to warn.
            warnings.simplefilter("ignore")
            try:
                fit = model.fit(reml=True, method=method, maxiter=1000, **options)
            except (np.linalg.LinAlgError, ValueError):
                continue
        if fit.converged and np.isfinite(fit.llf):
            return fit
    return None
