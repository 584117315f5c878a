"""Does the outcome follow the direction of the edit? Log-odds regressed on signed direction.

The intercept takes up what every edit does alike. Without it, a shift common to all items
leaks into the slope whenever the two directions are not equally frequent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from statsmodels.regression.linear_model import OLS

from lmrel_tasks.metrics.conventions import PRESETS
from lmrel_tasks.metrics.counterfactual import log_odds, pick
from lmrel_tasks.metrics.paired import checked_alternative
from lmrel_tasks.metrics.panel import Panel

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DirectionTest:
    """Slope of the outcome on the direction of the edit.

    Attributes
    ----------
    beta : float
        Change of the response per unit of direction (+1 against -1 is two units).
    intercept : float
        Shift common to all items; NaN without one.
    std_error, statistic, pvalue, ci_low, ci_high, confidence_level, df : float
        Of beta.
    pvalue_two_sided : float
    alternative, response, form, covariance : str
    r_squared : float
    n : int
        Items used.
    n_infinite : int
        Items left out because a probability of 0 or 1 has no finite response.
    n_clusters : int
    note : str
        Why there is no slope, if there is none.
    """

    beta: float
    intercept: float
    std_error: float
    statistic: float
    pvalue: float
    pvalue_two_sided: float
    ci_low: float
    ci_high: float
    confidence_level: float
    df: float
    alternative: str
    response: str
    form: str
    covariance: str
    r_squared: float
    n: int
    n_infinite: int
    n_clusters: int
    note: str


def _r_squared(fitted: Any) -> float:
    with np.errstate(invalid="ignore"):  # without variance there is nothing to explain: NaN
        return float(fitted.rsquared)


def direction_regression(
    targeted: ArrayLike,
    benign: ArrayLike,
    direction: ArrayLike,
    outcome: ArrayLike = 0,
    *,
    original: ArrayLike | None = None,
    form: str = "difference",
    response: str = "log_odds",
    intercept: bool = True,
    covariance: str | None = None,
    clusters: ArrayLike | None = None,
    clip: float | None = None,
    alternative: str = "two-sided",
    confidence_level: float = 0.95,
    published_tails: bool = False,
) -> DirectionTest:
    """Regress the response of an outcome class on the signed direction of the edit.

    "difference": response(targeted) - response(benign) on direction, one row per item.
    "level": response(targeted) and response(benign), stacked, on response(original) and on the
    direction, which is 0 in the benign rows; standard errors are clustered by item.

    Parameters
    ----------
    targeted : array_like, shape (items, options)
    benign : array_like, shape (items, options) or (items, paraphrases, options)
        Reference of the difference (give the originals to measure without baseline). The mean
        response of several paraphrases is taken; NaN rows are left out.
    direction : array_like, shape (items,)
        Signed direction or dose of each item's edit.
    outcome : int or array_like of int, shape (items,)
        The option whose probability is the outcome.
    original : array_like, shape (items, options), optional
        Needed by the level form.
    form : {"difference", "level"}
    response : {"log_odds", "log_probability"}
        Natural logarithms.
    intercept : bool
    covariance : {"HC3", "cluster", "nonrobust"}, optional
        Default: "cluster" with clusters or in the level form, else "HC3".
    clusters : array_like, shape (items,), optional
        Items that belong together (templates of one vignette). t has G - 1 degrees of freedom.
    clip : float, optional
        Probabilities are held within [clip, 1 - clip] (log-odds) or above it (log-probability).
        Without, items with an infinite response are left out and counted.
    alternative : {"two-sided", "greater", "less"}
    confidence_level : float
    published_tails : bool
        In the level form only: normal interval and two-sided p, one-sided p from t with the
        residual degrees of freedom, as published code mixes them.

    Returns
    -------
    DirectionTest

    Raises
    ------
    ValueError
        For mismatched shapes, unknown names, or NaN in the targeted rows or directions.

    References
    ----------
    MacKinnon and White (1985), Journal of Econometrics 29(3), 305-325, for HC3.
    Cameron and Miller (2015), Journal of Human Resources 50(2), 317-372, for t(G - 1).
    """
    checked_alternative(alternative)
    if response not in ("log_odds", "log_probability"):
        raise ValueError(f"response must be 'log_odds' or 'log_probability', not {response!r}")
    if form not in ("difference", "level"):
        raise ValueError(f"form must be 'difference' or 'level', not {form!r}")
    if form == "level" and original is None:
        raise ValueError("the level form needs original")
    x = np.asarray(direction, float)
    n_given = len(x)
    groups = np.arange(n_given) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    if len(groups) != n_given or any(np.shape(p)[0] != n_given for p in (targeted, benign)):
        raise ValueError("targeted, benign, direction and clusters must have one entry per item")
    options = np.broadcast_to(np.asarray(outcome), (n_given,))
    after = _response(targeted, options, response, clip, "targeted")
    reference = _response(benign, options, response, clip, "benign")
    given = [after, reference]
    if form == "level":
        before = _response(original, options, response, clip, "original")
        given.append(before)
    if np.isnan(x).any():
        raise ValueError(f"direction of item {int(np.flatnonzero(np.isnan(x))[0])} is NaN")

    kept = np.isfinite(given).all(axis=0)
    x, groups = x[kept], groups[kept]
    y, design, rows = after[kept] - reference[kept], x[:, None], groups
    if form == "level":
        y = np.concatenate([reference[kept], after[kept]])
        base = np.tile(before[kept], 2)
        design = np.column_stack([np.concatenate([0 * x, x]), base])
        rows = np.tile(groups, 2)
    if intercept:
        design = np.column_stack([design, np.ones(len(y))])
    default = "cluster" if clusters is not None or form == "level" else "HC3"
    kind = covariance or default
    if kind not in ("HC3", "cluster", "nonrobust"):
        raise ValueError(f"covariance must be 'HC3', 'cluster' or 'nonrobust', not {kind!r}")
    facts: dict[str, Any] = dict(
        confidence_level=confidence_level, alternative=alternative, response=response, form=form,
        covariance=kind, n=int(kept.sum()), n_infinite=int((~kept).sum()),
        n_clusters=len(np.unique(groups)),
    )  # fmt: skip
    note = _unidentified(y, design, x, kind, facts["n_clusters"])
    if note:
        return _without_slope(note, facts)

    normal = published_tails and form == "level"
    fitted = OLS(y, design).fit(
        cov_type=kind,
        cov_kwds={"groups": rows} if kind == "cluster" else None,
        use_t=not normal,
    )
    beta, error = float(fitted.params[0]), float(fitted.bse[0])
    t = float(fitted.tvalues[0])
    df = float(fitted.df_resid if normal else getattr(fitted, "df_resid_inference", None)
               or fitted.df_resid)  # fmt: skip
    two_sided = float(fitted.pvalues[0])
    tails = {"greater": stats.t.sf(t, df), "less": stats.t.cdf(t, df), "two-sided": two_sided}
    low, high = fitted.conf_int(alpha=1 - confidence_level)[0]
    return DirectionTest(
        beta=beta,
        intercept=float(fitted.params[-1]) if intercept else float("nan"),
        std_error=error,
        statistic=t,
        pvalue=float(tails[alternative]),
        pvalue_two_sided=two_sided,
        ci_low=float(low),
        ci_high=float(high),
        df=df,
        r_squared=_r_squared(fitted),
        note="",
        **facts,
    )


def panel_direction(
    data: Panel,
    direction: ArrayLike,
    outcome: ArrayLike = 0,
    *,
    preset: str = "default",
    form: str = "difference",
    clusters: ArrayLike | None = None,
    alternative: str = "two-sided",
    confidence_level: float = 0.95,
) -> DirectionTest:
    """`direction_regression` of the targeted against the benign answers of a panel.

    Parameters
    ----------
    data : Panel
    direction, outcome, form, clusters, alternative, confidence_level
        See `direction_regression`; ``direction`` and ``clusters`` belong to the kept items
        (``data.ids``).
    preset : {"default", "cfprompt", "paper"}
        The published two use no intercept, classical errors in the difference form, and
        probabilities clipped at 1e-12.

    Returns
    -------
    DirectionTest

    Raises
    ------
    ValueError
        For an unknown preset, and as `direction_regression`.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {tuple(PRESETS)}, not {preset!r}")
    rules = PRESETS[preset]
    classical = preset != "default" and form == "difference" and clusters is None
    return direction_regression(
        data.targeted,
        data.benign,
        direction,
        outcome,
        original=data.original,
        form=form,
        response=rules.response,
        # The level form has its own constant in every convention.
        intercept=rules.intercept or form == "level",
        covariance="nonrobust" if classical else None,
        clusters=clusters,
        clip=rules.clip,
        alternative=alternative,
        confidence_level=confidence_level,
        published_tails=rules.published_tails,
    )


def _response(
    probabilities: Any, options: Any, response: str, clip: float | None, name: str
) -> Floats:
    values = np.asarray(probabilities, float)
    several = values.ndim == 3
    missing = np.isnan(values).any(axis=-1)
    if (missing.all(axis=-1) if several else missing).any():
        raise ValueError(f"{name} has an item without probabilities: leave it out")
    option = options[:, None] if several else options
    if response == "log_odds":
        log = log_odds(values, option, clip=clip)
    else:
        chosen = pick(values, option)
        with np.errstate(divide="ignore"):
            log = np.log(chosen if clip is None else np.maximum(chosen, clip))
    if not several:
        return log
    count = (~missing).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        averaged: Floats = np.where(missing, 0.0, log).sum(axis=-1) / count
    return averaged


def _unidentified(y: Floats, design: Floats, x: Floats, kind: str, clusters: int) -> str:
    if len(y) <= design.shape[1]:
        return f"{len(y)} usable rows are too few for {design.shape[1]} coefficients"
    if np.linalg.matrix_rank(design) < design.shape[1]:
        if np.ptp(x) == 0:
            return "every edit goes in the same direction: slope and common shift are one"
        return "the regressors are collinear"
    if kind == "cluster" and clusters < 2:
        return "cluster-robust errors need two clusters or more"
    if kind == "HC3":
        leverage = np.einsum("ij,ji->i", design, np.linalg.pinv(design))
        if (leverage > 1 - 1e-9).any():
            return "one item alone fixes a coefficient: HC3 has no residual for it"
    return ""


def _without_slope(note: str, facts: dict[str, Any]) -> DirectionTest:
    nan = float("nan")
    return DirectionTest(
        beta=nan, intercept=nan, std_error=nan, statistic=nan, pvalue=nan, pvalue_two_sided=nan,
        ci_low=nan, ci_high=nan, df=nan, r_squared=nan, note=note, **facts,
    )  # fmt: skip
