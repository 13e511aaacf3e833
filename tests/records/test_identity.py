import json

from decent_core.records.identity import WITHOUT_EFFECT, config_hash
from tests.support.records import make_record


def test_config_hash_ignores_what_has_no_effect_and_nothing_else():
    config = make_record().config
    same = config | {"out": "elsewhere", "resume": "never", "trainer": {**config["trainer"], "threads": 3}}
    assert config_hash(same) == config_hash(config)
    for part, change in {"seed": 2, "world_size": 4, "trainer": {"steps": 41}, "method": {"name": "awc"}}.items():
        assert config_hash(config | {part: change}) != config_hash(config)
    over_seeds = WITHOUT_EFFECT | {"seed"}
    assert config_hash(config | {"seed": 2}, over_seeds) == config_hash(config, over_seeds)


def test_config_hash_survives_json():
    config = {"optimizer": {"betas": (0.9, 0.95), "lr": 0.1 + 0.2}, "b": 1, "a": None}
    assert config_hash(json.loads(json.dumps(config))) == config_hash(config)
