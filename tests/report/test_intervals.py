import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decent_core.report.intervals import interval

# two-sided 95 %, from the printed tables
T_TABLE = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 5: 2.5706, 9: 2.2622, 10: 2.2281, 30: 2.0423, 120: 1.9799}


@pytest.mark.parametrize(("degrees", "expected"), T_TABLE.items())
def test_half_width_has_the_printed_tables_factor(degrees, expected):
    n = degrees + 1
    values = np.random.default_rng(degrees).normal(size=n)
    found = interval(list(values))
    assert found.half_width / (values.std(ddof=1) / math.sqrt(n)) == pytest.approx(expected, abs=6e-5)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=6))
def test_interval_is_mean_and_t_times_standard_error(values):
    found = interval(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    expected = T_TABLE[len(values) - 1] * np.std(values, ddof=1) / math.sqrt(len(values))
    assert found.half_width == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_interval_of_one_run_has_no_width_and_of_none_is_none():
    assert interval([3.0]).half_width is None
    assert interval([]) is None
