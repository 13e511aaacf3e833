"""Known answers of BLEU and METEOR; WordNet that is missing or damaged."""

import shutil

import pytest
from nltk.translate.meteor_score import single_meteor_score

from tasks.wmt14 import wordnet
from tasks.wmt14.clean import clean, detokenise, join_pieces
from tasks.wmt14.metrics import bleu, meteor
from tests.support import ROOT


@pytest.fixture(scope="module", autouse=True)
def _wordnet():
    wordnet.bring_wordnet()  # set-up brings it; here nothing is fetched then


def test_bleu_is_sacrebleus_known_value_with_its_signature():
    # the example of sacreBLEU's README
    translations = ["The dog bit the man.", "It wasn't surprising.", "The man had just bitten him."]
    first = ["The dog bit the man.", "It was not unexpected.", "The man bit him first."]
    score, signature = bleu(translations, first)
    assert score == pytest.approx(45.0675, abs=1e-3)
    assert signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert bleu(first, first)[0] == pytest.approx(100)


def test_meteor_gives_nltks_documented_value():
    hypothesis = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = "It is a guide to action that ensures that the military will forever heed Party commands"
    assert round(meteor([hypothesis], [reference]), 4) == 0.6944
    assert round(meteor([hypothesis, reference], [reference, reference]), 4) == round((0.6944 + 0.9999) / 2, 4)


def test_meteor_counts_synonyms():
    plain = single_meteor_score(["a", "car"], ["a", "tree"], wordnet=wordnet.open_wordnet())
    assert single_meteor_score(["a", "car"], ["a", "auto"], wordnet=wordnet.open_wordnet()) > plain


def test_wordnet_that_is_missing_or_damaged_is_refused_with_the_command(tmp_path, monkeypatch):
    copy = tmp_path / "wordnet"
    monkeypatch.setattr(wordnet, "FOLDER", copy)
    with pytest.raises(ValueError, match=r"is missing .*Bring it with: python -m scripts\.prepare wordnet"):
        wordnet.open_wordnet.__wrapped__()
    shutil.copytree(ROOT / "data/wordnet-3.0", copy)
    with (copy / "data.noun").open("r+b") as file:
        file.seek(100_000)
        file.write(b"x")
    with pytest.raises(ValueError, match="is damaged"):
        wordnet.open_wordnet.__wrapped__()


def test_wordnet_without_a_source_says_what_to_do(tmp_path, monkeypatch):
    def unreachable(scratch):
        raise OSError("no route")

    monkeypatch.setattr(wordnet, "FOLDER", tmp_path / "wordnet")
    monkeypatch.setattr(wordnet, "_from_debian", unreachable)
    monkeypatch.setattr(wordnet, "_from_nltk", unreachable)
    with pytest.raises(ValueError, match=r"from any source.*Debian.*no route.*nltk.*task\.meteor=false"):
        wordnet.bring_wordnet()


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Hello,  world!", "Hello , world !"),
        ("a well-known\x07 thing", "a well @-@ known thing"),
        ("„Ja“, sagte er.", '" Ja " , sagte er .'),
        ("x@@ y", "x @ @ y"),
        ("\u200b\x00 ", ""),
    ],
)
def test_clean_follows_moses(text, tokens):
    assert clean(text, "de") == tokens


def test_detokenise_undoes_clean():
    for text in ("It's a well-known thing (really).", 'He said: "no."', "Prices rose by 3.5%."):
        assert detokenise(clean(text, "en"), "en") == text
    assert join_pieces(["un@@", "der@@", "stand", "it", "@@@", "-@@", "@"]) == "understand it @-@"
