"""From text to token files: round trips, resuming, the hub's schema, and what is skipped or refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from tasks.wmt14 import files
from tasks.wmt14.binarised import EOS, read_dictionary, read_sentences
from tasks.wmt14.clean import clean, join_pieces
from tasks.wmt14.corpus import load_corpus
from tasks.wmt14.files import GrowingFiles, prepared_folder, read_manifest
from tasks.wmt14.preparation import prepare
from tasks.wmt14.source import SPLITS, Help
from tests.support import wmt14


def quiet(done: int, total: int) -> None:
    assert 0 <= done <= total


def contents(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.suffix in (".bin", ".idx", ".txt")
    }


def prepared(tmp_path: Path, pairs, processes=1, **changes):
    text = wmt14.write_pairs(tmp_path / "text", pairs)
    settings = wmt14.plain_settings(dataset=str(text), data_dir=str(tmp_path / "data"), **changes)
    return settings, prepare(settings, quiet, processes)


def test_prepared_files_hold_the_cleaned_text_and_raw_references():
    settings = wmt14.settings()
    corpus = load_corpus(settings)
    for split in SPLITS:
        pairs = getattr(corpus, split)
        assert len(pairs) == len(wmt14.help_pairs()[split])
        for index in range(0, len(pairs), 7):
            raw = wmt14.help_pairs()[split][index]
            for side, sentences, language in zip(raw, (pairs.source, pairs.target), ("en", "de"), strict=True):
                ids = sentences[index]
                assert ids[-1] == EOS
                text = join_pieces([corpus.dictionary.symbols[i] for i in ids[:-1]])
                assert text == clean(side, language) or "<unk>" in text
    assert corpus.references == [" ".join(target.split()) for _, target in wmt14.help_pairs()["test"]]
    assert len(corpus.dictionary) == 512


def test_dictionary_counts_the_training_tokens():
    folder = prepared_folder(wmt14.settings())
    dictionary = read_dictionary(folder / "dict.de.txt")
    tokens = np.concatenate([read_sentences(folder / f"train.en-de.{language}").tokens for language in ("en", "de")])
    assert dictionary.counts[4:] == np.bincount(tokens, minlength=512)[4:].tolist()


def test_help_is_split_by_file_and_shares_no_english_sentence_with_training():
    source = Help(("en", "fr"))
    english = {split: {pair[0] for piece in source.pieces(split, 0) for pair in piece} for split in SPLITS}
    assert not english["train"] & (english["valid"] | english["test"])
    assert source.counts["train"] > 38_000
    assert min(source.counts["valid"], source.counts["test"]) > 500


def test_prepare_gives_the_same_files_when_killed_anywhere_and_over_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("tasks.wmt14.preparation.PIECE", 100)
    monkeypatch.setattr("tasks.wmt14.source.PIECE", 100)
    pairs = wmt14.help_pairs()
    whole, _ = prepared(tmp_path / "whole", pairs)

    class KilledError(Exception):
        pass

    writes = 0
    write = GrowingFiles.write

    def write_until_killed(self, name, content):
        nonlocal writes
        writes += 1
        if writes % 470 == 0:
            write(self, name, content[: len(content) // 2])
            self._open[name].flush()
            raise KilledError
        write(self, name, content)

    monkeypatch.setattr(GrowingFiles, "write", write_until_killed)
    kills = 0
    while True:
        try:
            settings, _ = prepared(tmp_path / "killed", pairs)
            break
        except KilledError:
            kills += 1
    assert kills >= 2
    assert contents(prepared_folder(settings)) == contents(prepared_folder(whole))
    monkeypatch.undo()
    over_two, summary = prepared(tmp_path / "two", pairs, processes=2)
    assert contents(prepared_folder(over_two)) == contents(prepared_folder(whole))
    assert "train 600, valid 40, test 24" in summary
    assert "sentences/s a core" in summary


def test_prepare_holds_out_every_nth_training_pair(tmp_path):
    settings, summary = prepared(tmp_path, wmt14.help_pairs(), validation_every=50)
    assert "train 588, valid 12, test 24;" in summary
    corpus = load_corpus(settings)
    text = join_pieces([corpus.dictionary.symbols[i] for i in corpus.valid.source[0][:-1]])
    assert text == clean(wmt14.help_pairs()["train"][49][0], "en")


def test_prepare_reads_the_hubs_schema_as_it_reads_files(tmp_path):
    import pandas

    folder = tmp_path / "hub"
    folder.mkdir()
    for split, name in (("train", "train"), ("valid", "validation"), ("test", "test")):
        rows = [{"de": german, "en": english} for english, german in wmt14.help_pairs()[split]]
        pandas.DataFrame({"translation": rows}).to_parquet(folder / f"{name}.parquet")
    lines = ["configs:", "- config_name: de-en", "  data_files:"]
    for name in ("train", "validation", "test"):
        lines += [f"  - split: {name}", f"    path: {name}.parquet"]
    (folder / "README.md").write_text("---\n" + "\n".join(lines) + "\n---\n")
    settings = wmt14.plain_settings(dataset=str(folder), data_dir=str(tmp_path / "data"))
    prepare(settings, quiet, 1)
    assert contents(prepared_folder(settings)) == contents(prepared_folder(wmt14.settings()))
    with pytest.raises(ValueError, match="can't be read"):
        prepare(wmt14.plain_settings(name="wmt14_en_fr", dataset=str(folder), data_dir=str(tmp_path)), quiet, 1)


def test_prepare_counts_what_it_skips(tmp_path):
    pairs = wmt14.help_pairs()
    text = wmt14.write_pairs(tmp_path / "text", {**pairs, "train": [*pairs["train"], ("", "leer"), ("\u200b", "x")]})
    with (text / "train.en").open("ab") as source, (text / "train.de").open("ab") as target:
        source.write(b"caf\xe9\n")
        target.write(b"ein Caf\xc3\xa9\n")
    settings = wmt14.plain_settings(dataset=str(text), data_dir=str(tmp_path / "data"))
    summary = prepare(settings, quiet, 1)
    assert "skipped: empty line 2" in summary
    assert "skipped: invalid UTF-8 1" in summary
    manifest = read_manifest(prepared_folder(settings))
    assert manifest["counts"]["train"] == 600


def test_prepare_refuses_unequal_line_counts_and_tests_that_cannot_be_scored(tmp_path):
    pairs = wmt14.help_pairs()
    text = wmt14.write_pairs(tmp_path / "a", pairs)
    with (text / "valid.de").open("a") as file:
        file.write("eine Zeile mehr\n")
    with pytest.raises(ValueError, match=r"valid\.en has 40 lines but .*valid\.de has 41"):
        prepare(wmt14.plain_settings(dataset=str(text), data_dir=str(tmp_path)), quiet, 1)
    text = wmt14.write_pairs(tmp_path / "b", {**pairs, "test": [*pairs["test"], ("a sentence", "")]})
    with pytest.raises(ValueError, match=r"Test pair 25 .* can't be scored: empty line"):
        prepare(wmt14.plain_settings(dataset=str(text), data_dir=str(tmp_path)), quiet, 1)
    (text / "valid.en").unlink()
    with pytest.raises(ValueError, match=r"lacks .*valid\.en"):
        prepare(wmt14.plain_settings(dataset=str(text), data_dir=str(tmp_path)), quiet, 1)


def test_prepare_refuses_a_vocabulary_that_the_text_does_not_yield(tmp_path):
    with pytest.raises(ValueError, match=r"entries, not of 30000: lower task\.vocabulary"):
        prepared(tmp_path, wmt14.help_pairs(), vocabulary=30_000)


def test_load_names_the_command_and_what_is_damaged(tmp_path):
    settings = wmt14.plain_settings(dataset="wmt14", data_dir=str(tmp_path))
    with pytest.raises(ValueError, match=r"not prepared .*python -m scripts\.prepare task=wmt14_en_de"):
        load_corpus(settings)
    settings, _ = prepared(tmp_path, wmt14.help_pairs())
    folder = prepared_folder(settings)
    assert prepare(settings, quiet, 1).startswith(str(folder))  # nothing is done twice
    with (folder / "train.en-de.de.bin").open("ab") as file:
        file.write(b"\0\0")
    with pytest.raises(ValueError, match=r"train\.en-de\.de\.bin does not fit"):
        load_corpus(settings)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "phase": "encode"}))
    with pytest.raises(ValueError, match="only in part"):
        load_corpus(settings)


def test_prepare_leaves_binarised_folders_alone(tmp_path):
    (tmp_path / "dict.en.txt").write_text("")
    assert "read as it is" in prepare(wmt14.plain_settings(dataset=str(tmp_path)), quiet)
