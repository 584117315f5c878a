"""Sample size and minimum detectable effect: closed form, and what a simulation finds."""

import numpy as np
import pytest
from scipy import stats

from lmrel_tasks.metrics.power import difference_variance, minimum_detectable_effect, sample_size


def test_sample_size_closed_form():
    z = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    variance = 1 / 9 + 1 / 6 / 10 + 1 / 6 / 5
    assert sample_size(0.03, 1 / 9, 1 / 6, 1 / 6, 10, 5) == np.ceil(z**2 * variance / 0.03**2)
    one = stats.norm.ppf(0.95) + stats.norm.ppf(0.9)
    got = sample_size(-0.2, 1.0, alternative="less", power=0.9)
    assert got == np.ceil(one**2 / 0.04)
    assert difference_variance(1.0, 2.0, 3.0, 4, 6) == 2.0


def test_sample_size_gives_its_power():
    rng = np.random.default_rng(31)
    n = sample_size(0.3, 0.5, 1.0, 2.0, 4, 8)
    truth = rng.normal(0.3, np.sqrt(0.5), (4000, n))
    noise = rng.normal(0, np.sqrt(1 / 4 + 2 / 8), (4000, n))
    found = stats.ttest_1samp(truth + noise, 0, axis=1).pvalue <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_minimum_detectable_effect_is_found_with_its_power(alternative):
    rng = np.random.default_rng(32)
    effect = minimum_detectable_effect(2.0, 25, alternative=alternative)
    d = rng.normal(effect, 2.0, (6000, 25))
    found = stats.ttest_1samp(d, 0, axis=1, alternative=alternative).pvalue <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)
    assert minimum_detectable_effect(0.0, 25) == 0


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="zero"):
        sample_size(0, 1.0)
    with pytest.raises(ValueError, match="negative"):
        sample_size(0.1, -1.0)
    with pytest.raises(ValueError, match="runs"):
        sample_size(0.1, 1.0, runs_a=0)
    with pytest.raises(ValueError, match="n must"):
        minimum_detectable_effect(1.0, 1)
    with pytest.raises(ValueError, match="alpha"):
        sample_size(0.1, 1.0, alpha=0)
