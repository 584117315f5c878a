"""Fitting of statsmodels' mixed models by restricted maximum likelihood, safely."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

# Ratios of random to residual variance searched; below the first the random effect is none.
LEAST_RATIO, MOST_RATIO = 1e-7, 1e5


def fit_reml(model: MixedLM, start: MixedLMParams | None = None) -> Any:
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
                fit = model.fit(
                    reml=True, method=method, start_params=start, maxiter=1000, **options
                )
            except (np.linalg.LinAlgError, ValueError):
                continue
        if fit.converged and np.isfinite(fit.llf):
            return fit
    return None


def intercept_variance_ratio(model: MixedLM) -> float:
    """Ratio of the random intercept's variance to the residual one that maximises the likelihood.

    0.0 where the likelihood falls from the boundary on. One variance is one number to search for,
    which takes a fraction of the time that general optimisers spend near 0.
    """

    # What `fit` sets before it optimises.
    model.reml, model.cov_pen, model.fe_pen = True, None, None

    def loss(log_ratio: float) -> float:
        params = MixedLMParams.from_components(
            fe_params=np.zeros(model.k_fe), cov_re=np.array([[np.exp(log_ratio)]])
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return -float(model.loglike(params, profile_fe=True))

    bounds = (np.log(LEAST_RATIO), np.log(MOST_RATIO))
    # The likelihood is flat in the logarithm far below 1/n: search from a grid's best point.
    grid = np.linspace(*bounds, 15)
    values = [loss(x) for x in grid]
    best = int(np.nanargmin(values))
    if best == 0:
        return 0.0
    low, high = grid[best - 1], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-6})
    # Gains this small over no variance at all are rounding.
    return 0.0 if found.fun > values[0] - 1e-8 else float(np.exp(found.x))


def intercept_start(model: MixedLM, ratio: float) -> MixedLMParams:
    """Starting values with that ratio for `fit_reml`."""
    return MixedLMParams.from_components(fe_params=np.zeros(model.k_fe), cov_re=np.array([[ratio]]))
