import pytest

from decent_core.clock import TimeLeft, percentile, readable


def test_percentile_interpolates_and_is_none_for_nothing():
    assert percentile([], 50) is None
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile(list(range(101)), 95) == 95


def test_time_left_counts_the_pace_since_the_resume_only():
    now = [100.0]
    left = TimeLeft(done=50, now=lambda: now[0])
    assert left.seconds(50, 200) is None
    now[0] = 110.0
    assert left.seconds(70, 200) == pytest.approx(65.0)
    assert left.seconds(200, 200) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "?"), (0.4, "0:00"), (67, "1:07"), (3599.6, "1:00:00"), (3 * 3600 + 61, "3:01:01")]
)
def test_readable_times(seconds, text):
    assert readable(seconds) == text
