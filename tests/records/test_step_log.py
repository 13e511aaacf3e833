import math

import pytest

from decent_core.records.step_log import MetricsLog


def test_metrics_log_drops_later_steps_and_half_written_lines(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl")
    assert log.lines() == []
    log.truncate_after(3)
    for step in range(1, 6):
        log.append({"step": step, "loss": math.nan if step == 2 else 1.0 / step})
    with open(log.path, "a") as stream:
        stream.write('{"step": 6, "lo')
    assert [line["step"] for line in log.lines()] == [1, 2, 3, 4, 5]
    log.truncate_after(3)
    log.append({"step": 4, "loss": 0.5})
    assert [(line["step"], line["loss"]) for line in log.lines()] == [(1, 1.0), (2, None), (3, 1 / 3), (4, 0.5)]
    log.append({"step": 4, "kind": "eval", "loss": 0.4})
    log.truncate_after(4)
    assert [line["step"] for line in log.lines()] == [1, 2, 3, 4, 4]
    log.truncate_after(4, finished=True)  # the last evaluation is made again
    assert [(line["step"], line["loss"]) for line in log.lines()][2:] == [(3, 1 / 3), (4, 0.5)]


@pytest.mark.parametrize(
    "damage", [b"\0\0\0", b"garbage", b"", b"\xff\xfe", b"[1]", b'{"loss": 1}', b'{"step": "2"}', b"[" * 100_000]
)
def test_metrics_log_leaves_a_damaged_line_out_and_names_it(tmp_path, damage):
    warnings: list[str] = []
    log = MetricsLog(tmp_path / "metrics.jsonl", warnings.append)
    log.path.write_bytes(b'{"step": 1}\n' + damage + b'\n{"step": 3}\n')
    assert [line["step"] for line in log.lines()] == [1, 3]
    assert len(warnings) == 1
    assert f"{log.path}, line 2: left out" in warnings[0]
    log.truncate_after(3)
    assert log.path.read_bytes() == b'{"step": 1}\n{"step": 3}\n'
