"""fairseq itself: its preprocessing, its model, its search, and weights to and from it. Needs the extra `fairseq`."""

import subprocess
import sys

import pytest
import torch

from decent_core.config.load import load
from tasks.wmt14.beam import Candidate, beam_search
from tasks.wmt14.binarised import PAD
from tasks.wmt14.fairseq_model import FairseqTransformer, from_fairseq, to_fairseq
from tasks.wmt14.files import prepared_folder
from tasks.wmt14.model import MarianDecoding, MarianTransformer
from tests.support import needs, wmt14

pytestmark = needs.fairseq


@pytest.fixture(scope="module")
def pair() -> tuple[MarianTransformer, FairseqTransformer]:
    """A trained model of ours, and fairseq's with its weights."""
    task, ours = wmt14.trained()
    settings = task.settings
    theirs = FairseqTransformer(settings, task._corpus.dictionary).eval()
    theirs.transformer.load_state_dict(to_fairseq(ours.transformer.state_dict()), strict=True)
    return ours, theirs


@torch.no_grad()
def test_weights_give_fairseq_the_same_logits(pair):
    batch = wmt14.trained()[0].final_batches()[0]
    previous = batch["target"]
    seen = previous != PAD
    logits = [model(batch["source"], previous)[seen] for model in pair]
    torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=1e-5)


@torch.no_grad()
def test_weights_come_back_from_fairseq(pair):
    ours, theirs = pair
    back = MarianTransformer(wmt14.trained()[0].settings)
    missing, unexpected = back.transformer.load_state_dict(from_fairseq(theirs.transformer.state_dict()), strict=False)
    assert not unexpected
    assert all(name.endswith(("embed_positions.weight", "final_logits_bias")) for name in missing)
    for name, weights in ours.state_dict().items():
        assert weights.equal(back.state_dict()[name]), name
    with pytest.raises(ValueError, match="not tied"):
        from_fairseq({**theirs.transformer.state_dict(), "decoder.output_projection.weight": torch.zeros(1)})


@torch.no_grad()
def test_beam_search_gives_fairseqs_translations(pair):
    ours, theirs = pair
    source = _sources()
    found, expected = (model.translate(source, beam=4, alpha=0.6, extra=8) for model in (ours, theirs))
    _assert_same(found, expected)
    assert len({tuple(candidate.ids) for candidate in found}) > 12


@torch.no_grad()
def test_beam_search_gives_fairseqs_translations_under_fairseqs_own_penalty(pair):
    from fairseq.sequence_generator import SequenceGenerator

    ours, theirs = pair
    source = _sources()[:1]
    source = source[:, : int((source != PAD).sum())]
    generator = SequenceGenerator(
        [theirs.transformer], theirs._symbols, beam_size=4, max_len_a=1, max_len_b=7, len_penalty=0.6
    )
    (expected,) = generator.generate([theirs.transformer], {"net_input": {"src_tokens": source, "src_lengths": None}})
    limits = torch.tensor([source.shape[1] + 7])
    found = beam_search(MarianDecoding(ours.transformer, source, 4), limits, 4, lambda length: length**0.6)
    _assert_same(found, [Candidate(expected[0]["tokens"][:-1].tolist(), float(expected[0]["score"]))])


def test_fairseq_preprocess_gives_the_same_files_and_loss(tmp_path):
    folder = prepared_folder(wmt14.settings())
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            bpe = [" ".join(pieces) for pieces in _pieces(folder, split, language)]
            (tmp_path / f"{split}.{language}").write_text("".join(f"{line}\n" for line in bpe), encoding="utf-8")
    options = {f"--{split}pref": str(tmp_path / split) for split in ("train", "valid", "test")}
    options |= {"--source-lang": "en", "--target-lang": "de", "--destdir": str(tmp_path / "bin")}
    options |= {"--srcdict": str(folder / "dict.en.txt"), "--workers": "1"}
    flat = [text for option in options.items() for text in option]
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "--joined-dictionary", *flat]
    subprocess.run(command, check=True, capture_output=True)
    written = sorted((tmp_path / "bin").glob("*.en-de.*"))
    assert len(written) == 12
    for path in written:
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    ours, theirs = wmt14.build(), wmt14.build(dataset=str(tmp_path / "bin"))
    assert _losses(ours) == _losses(theirs)


def test_configurations_compose_after_fairseq_is_imported(pair):
    assert load(["task=wmt14_en_de", "scale=smoke", "optimizer=adam"]).optimizer.name == "adam"


def test_fairseq_model_trains_and_decodes_through_the_task():
    task = wmt14.build(model="fairseq_transformer", dropout=0.0)
    losses = _losses(task, steps=25)
    assert losses[-1] < losses[0] - 0.5
    torch.manual_seed(0)
    model = task.build_model().eval()
    with torch.no_grad():
        parts = [task.evaluate(model, batch) for batch in task.final_batches()]
    metrics = task.summarise(parts)
    assert {"val_loss", "val_perplexity", "bleu", "bleu_tokenised"} <= set(metrics)


def _sources() -> torch.Tensor:
    batches = [batch["source"] for batch in wmt14.trained()[0].final_batches() if "sentence" in batch]
    longest = max(batch.shape[1] for batch in batches)
    return torch.cat([torch.nn.functional.pad(batch, (0, longest - batch.shape[1]), value=PAD) for batch in batches])


def _assert_same(found: list[Candidate], expected: list[Candidate]) -> None:
    assert [candidate.ids for candidate in found] == [candidate.ids for candidate in expected]
    assert [c.score for c in found] == pytest.approx([c.score for c in expected], abs=1e-4)


def _pieces(folder, split: str, language: str) -> list[list[str]]:
    from tasks.wmt14.binarised import read_dictionary, read_sentences

    symbols = read_dictionary(folder / f"dict.{language}.txt").symbols
    sentences = read_sentences(folder / f"{split}.en-de.{language}")
    return [[symbols[i] for i in sentences[number][:-1]] for number in range(len(sentences))]


def _losses(task, steps: int = 3) -> list[float]:
    torch.manual_seed(0)
    model = task.build_model().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for step in range(steps):
        batch = task.batch(step, 0)
        torch.manual_seed(step)
        loss = task.loss_sum(model, batch) / task.weight(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses
