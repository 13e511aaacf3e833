"""The embedded data: the committed bytes, their notices, and that a damaged file is refused."""

import hashlib
import json
import shutil

import pytest

from scripts import prepare
from tasks import assets, derive_assets

SHA256 = {
    "sotu": "f134a9048149953ae5b68f9a66bc4e034d4f398b9d0e124bb7ffd0fc4c2dff50",
    "gpt2_bpe": "7a7f1932afdbe16b50230e3f4ef6ff1037208e6c276d97d3652608c385401f6e",
}
PUBLISHED_VOCAB_BPE = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"


@pytest.mark.parametrize("name", SHA256)
def test_committed_asset_is_the_derived_one_and_has_a_notice(name):
    packed = (assets.FOLDER / f"{name}.xz").read_bytes()
    notice = json.loads((assets.FOLDER / f"{name}.json").read_text())
    assert hashlib.sha256(packed).hexdigest() == notice["sha256"] == SHA256[name]
    assert hashlib.sha256(assets.read(name)).hexdigest() == notice["sha256_uncompressed"]
    assert notice["source"].startswith("npm ")
    assert "Permission is hereby granted" in notice["licence"] or "Public Domain" in notice["licence"]


def test_assets_stay_small():
    assert sum(path.stat().st_size for path in assets.FOLDER.glob("*.xz")) < 20e6


def test_speeches_are_in_order_with_year_and_president():
    speeches = [json.loads(line) for line in assets.read("sotu").decode().splitlines()]
    assert len(speeches) == 233
    years = [speech["year"] for speech in speeches]
    assert years == sorted(years)
    assert (years[0], speeches[0]["president"]) == (1790, "George Washington")
    assert (years[-1], speeches[-1]["president"]) == (2021, "Joseph R Biden")
    assert sum(len(speech["text"]) for speech in speeches) > 10e6


def test_gpt2_merges_are_the_published_ones():
    assert hashlib.sha256(assets.read("gpt2_bpe")).hexdigest() == PUBLISHED_VOCAB_BPE


def test_damaged_asset_is_refused(tmp_path, monkeypatch):
    for suffix in ("xz", "json"):
        shutil.copy(assets.FOLDER / f"gpt2_bpe.{suffix}", tmp_path)
    monkeypatch.setattr(assets, "FOLDER", tmp_path)
    assert assets.read("gpt2_bpe")
    packed = bytearray((tmp_path / "gpt2_bpe.xz").read_bytes())
    packed[1000] ^= 1
    (tmp_path / "gpt2_bpe.xz").write_bytes(packed)
    with pytest.raises(ValueError, match=r"gpt2_bpe.xz is damaged.*scripts.prepare assets gpt2_bpe"):
        assets.read("gpt2_bpe")


def test_an_asset_is_derived_by_its_name(tmp_path, monkeypatch, capsys):
    def derive():
        (tmp_path / "x.xz").write_bytes(bytes(1234))
        return tmp_path / "x.xz"

    monkeypatch.setattr(derive_assets, "ASSETS", {"x": derive})
    prepare.main(["assets", "x"])
    assert capsys.readouterr().out == f"{tmp_path}/x.xz: 1,234 bytes\n"
    with pytest.raises(ValueError, match=r"^y: no such asset; choose from x$"):
        prepare.main(["assets", "x", "y"])


def test_every_committed_asset_has_a_function_that_derives_it():
    assert set(derive_assets.ASSETS) == {path.stem for path in assets.FOLDER.glob("*.xz")}


def test_written_asset_is_read_back_and_writing_again_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "FOLDER", tmp_path)
    about = {"source": "npm x@1", "content_is": "y", "licence": "MIT"}
    first = assets.write("x", b"content" * 1000, **about).read_bytes()
    assert assets.read("x") == b"content" * 1000
    assert assets.write("x", b"content" * 1000, **about).read_bytes() == first
