"""fairseq's binarised format by our own reader and writer: round trips, errors. test_wmt14_fairseq.py asks fairseq."""

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.wmt14 import binarised
from tasks.wmt14.binarised import dictionary, read_dictionary, read_sentences, write_sentences
from tasks.wmt14.corpus import load_corpus
from tasks.wmt14.files import prepared_folder
from tests.support import wmt14

IDS = st.lists(st.lists(st.integers(3, 40_000), max_size=8).map(lambda ids: [*ids, binarised.EOS]), max_size=20)


@given(sentences=IDS, vocabulary=st.sampled_from([40_001, 100_000]))
def test_sentences_come_back_as_they_were_written(tmp_path_factory, sentences, vocabulary):
    prefix = tmp_path_factory.mktemp("pair") / "train.en-de.en"
    write_sentences(prefix, [np.array(ids) for ids in sentences], vocabulary)
    found = read_sentences(prefix)
    assert [found[i].tolist() for i in range(len(found))] == sentences
    assert found.tokens.dtype == (np.uint16 if vocabulary < 65_500 else np.int32)


def test_dictionary_comes_back_and_refuses_other_files(tmp_path):
    path = tmp_path / "dict.en.txt"
    entries = dictionary([("der", 5), ("a@@", 3), ("\u2028", 1)])
    entries.save(path)
    assert path.read_text(encoding="utf-8") == "der 5\na@@ 3\n\u2028 1\n"
    assert read_dictionary(path).symbols == ["<s>", "<pad>", "</s>", "<unk>", "der", "a@@", "\u2028"]
    path.write_text("der 5\nwithout\n")
    with pytest.raises(ValueError, match=r"dict\.en\.txt, line 2: 'without' is not `symbol count`"):
        read_dictionary(path)
    path.write_text("der 5\nder 4\n")
    with pytest.raises(ValueError, match="'der' stands in the dictionary twice"):
        read_dictionary(path)
    path.write_bytes(b"caf\xe9 3\n")
    with pytest.raises(ValueError, match="not valid UTF-8"):
        read_dictionary(path)


def test_reader_refuses_other_formats_and_damaged_files(tmp_path):
    prefix = tmp_path / "train.en-de.en"
    with pytest.raises(ValueError, match=r"train\.en-de\.en\.idx is missing"):
        read_sentences(prefix)
    write_sentences(prefix, [np.array([4, 5, 2]), np.array([6, 2])], 100)
    index = prefix.with_name("train.en-de.en.idx")
    content = index.read_bytes()
    index.write_bytes(b"TNTIDX\x00\x00" + content[8:])
    with pytest.raises(ValueError, match="not in fairseq's mmap format"):
        read_sentences(prefix)
    index.write_bytes(content[:-1])
    with pytest.raises(ValueError, match="damaged"):
        read_sentences(prefix)


@pytest.fixture
def folder(tmp_path):
    """A copy of prepared files that may be damaged."""
    copy = tmp_path / "data-bin"
    shutil.copytree(prepared_folder(wmt14.settings()), copy)
    return copy


def test_binarised_folder_trains_as_the_prepared_one(folder):
    task, prepared = wmt14.build(dataset=str(folder)), wmt14.build()
    for side in ("source", "target"):
        assert task.batch(7, 0)[side].equal(prepared.batch(7, 0)[side])


def test_binarised_folder_of_the_other_direction_is_read(folder):
    for path in folder.glob("*.en-de.*"):
        path.rename(path.with_name(path.name.replace("en-de", "de-en")))
    assert wmt14.build(dataset=str(folder)).batch(0, 0)["source"].equal(wmt14.build().batch(0, 0)["source"])


def test_binarised_folder_refuses_wrong_dictionaries(folder):
    with pytest.raises(ValueError, match=r"has 512 entries .*give task\.vocabulary=512"):
        load_corpus(wmt14.settings(dataset=str(folder), vocabulary=600))
    lines = (folder / "dict.de.txt").read_text().split("\n")
    (folder / "dict.de.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]))
    with pytest.raises(ValueError, match=r"dict\.de\.txt differ.*--joined-dictionary"):
        load_corpus(wmt14.settings(dataset=str(folder)))
    for language in ("en", "de"):
        (folder / f"dict.{language}.txt").write_text("\n".join(lines[:297]) + "\n")
    with pytest.raises(ValueError, match=r"Token \d+ of the data is not among the 301 in its dictionary"):
        wmt14.build(dataset=str(folder), vocabulary=301)


def test_binarised_folder_refuses_unequal_sentence_counts(folder):
    write_sentences(folder / "valid.en-de.de", [np.array([5, 2])], 512)
    with pytest.raises(ValueError, match=r"en\.idx has 40 sentences but \.de\.idx has 1"):
        load_corpus(wmt14.settings(dataset=str(folder)))
