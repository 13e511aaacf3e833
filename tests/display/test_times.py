import pytest

from decent_core.display.times import TimeLeft, percentile, readable


def test_percentile_interpolates_and_is_none_for_nothing():
    assert percentile([], 50) is None
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == 2.5
    assert percentile(list(range(101)), 95) == 95


def test_time_left_counts_the_pace_since_the_resume_only():
    now = [100.0]
    left = TimeLeft({"run": 200}, now=lambda: now[0])
    assert left.seconds({"run": 50}, ["run"]) is None
    now[0] = 110.0
    assert left.seconds({"run": 70}, ["run"]) == pytest.approx(65.0)
    assert left.seconds({"run": 200}, ["run"]) == 0.0


def test_time_left_of_runs_knows_that_steps_take_unequally_long():
    now = [0.0]
    left = TimeLeft({"long": 10, "short": 1000, "like_short": 1000, "resumed": 10}, now=lambda: now[0])
    done = {"long": 0, "short": 0, "like_short": 0, "resumed": 5}
    assert left.seconds(done, ["long", "short"]) is None
    now[0] = 10.0
    done |= {"long": 1, "short": 500}
    # 90 s of `long`, 10 of `short`, 20 of `like_short`, half of `resumed`, which is like `long`: two at once
    assert left.seconds(done, ["long", "short"]) == pytest.approx((90 + 10 + 20 + 50) / 2)
    now[0] = 20.0
    done |= {"long": 2, "short": 1000}
    assert left.seconds(done, ["long", "resumed"]) == pytest.approx((80 + 0 + 20 + 50) / 2)
    now[0] = 30.0
    done |= {"resumed": 6}
    assert left.seconds(done, ["resumed"]) == pytest.approx(80 + 20 + 40)


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "?"), (0.4, "0:00"), (67, "1:07"), (3599.6, "1:00:00"), (3 * 3600 + 61, "3:01:01")]
)
def test_readable_times(seconds, text):
    assert readable(seconds) == text
