"""The task on the embedded text: batches, losses, validation, preparation on first use."""

import hashlib
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from tasks import gpt2
from tasks.gpt2.source import Embedded
from tasks.gpt2.tokens import load_tokens, token_folder, write_manifest
from tests.support.gpt2 import settings

# Of the training tokens from the embedded text and a BPE of 2,048 entries: another value means other training data.
TRAIN_SHA256 = "3f765d26811d3ef34b9b0d560794d2df00a1170d3e0b1da8b757ecd0f8261c36"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def build(data_dir):
    """A function that builds the task with changed settings on one set of token files."""

    def build_task(seed=1, world_size=4, **changes):
        return gpt2.build(settings(data_dir=data_dir, **changes), seed, world_size)

    return build_task


@pytest.fixture(scope="module")
def task(build):
    return build()


def joined(batches):
    return torch.cat([batch["inputs"] for batch in batches])


def test_embedded_text_gives_the_tokens_that_it_always_gave(task, data_dir):
    tokens = load_tokens(settings(data_dir=data_dir))
    assert hashlib.sha256(tokens.train.tobytes()).hexdigest() == TRAIN_SHA256
    assert int(tokens.train.max()) == tokens.end_of_text == 2047
    assert (tokens.train == 2047).sum() == 233 - 12
    assert (tokens.validation == 2047).sum() == 12


def test_validation_documents_are_whole_speeches_of_all_eras(task, data_dir):
    configuration = settings(data_dir=data_dir)
    source = Embedded()
    held_out = source.held_out(configuration.validation_fraction, configuration.split_seed)
    assert len(held_out) == 12
    assert np.diff([-1, *held_out, 233]).max() < 2 * 20  # one in every 233 / 12 speeches
    tokenizer = Tokenizer.from_file(str(token_folder(configuration) / "tokenizer.json"))
    tokens = load_tokens(configuration).validation
    speeches = np.split(tokens, np.flatnonzero(tokens == 2047) + 1)[:-1]
    text_of = [bytes_of(tokenizer, speech[:-1]) for speech in speeches]
    assert text_of == [source.texts[place].encode() for place in held_out]


def bytes_of(tokenizer, ids):
    """Decoded by hand from GPT-2's way of writing bytes as characters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shown = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    byte_of = dict(zip(shown, printable + [b for b in range(256) if b not in printable], strict=True))
    return bytes(byte_of[character] for token in ids.tolist() for character in tokenizer.id_to_token(token))


def test_batches_are_a_function_of_seed_worker_and_step(build, task):
    again, other = build(), build(seed=2)
    for step, worker in [(0, 0), (5, 3), (123_456, 2)]:
        batch = task.batch(step, worker)
        assert batch["inputs"].shape == batch["targets"].shape == (4, 32)
        assert (batch["inputs"][:, 1:] == batch["targets"][:, :-1]).all()
        assert (again.batch(step, worker)["inputs"] == batch["inputs"]).all()
        assert (other.batch(step, worker)["inputs"] != batch["inputs"]).any()
    assert (task.batch(0, 0)["inputs"] != task.batch(0, 1)["inputs"]).any()


def test_global_batch_is_the_same_for_any_number_of_workers(build, task):
    step = task._training[0].epochs.size // 16  # a step that reaches into the second epoch
    expected = joined(task.batch(step, worker) for worker in range(4))
    for world_size in (1, 2, 8, 16):
        other = build(world_size=world_size)
        assert (joined(other.batch(step, worker) for worker in range(world_size)) == expected).all()


def test_batch_that_cannot_be_shared_is_refused(build):
    with pytest.raises(ValueError, match=r"task.global_batch=16 .* world_size=5 workers: give 15 or 20"):
        build(world_size=5)


def test_by_document_gives_each_worker_its_own_documents(tmp_path):
    configuration = settings(data_dir=str(tmp_path), dataset="owner/name", sharding="by_document")
    tokens = np.arange(40_000, dtype=np.uint16)  # a token tells its place
    tokens[999::1000] = 65_535
    write_tokens(configuration, tokens, tokens, end_of_text=65_535)
    task = gpt2.build(configuration, 1, 4)
    for worker in range(4):
        rows = joined(task.batch(step, worker) for step in range(77)).tolist()  # within the first epoch
        places = [min(row) for row in rows]
        assert len(set(places)) == len(places)
        assert 10_000 * worker <= min(places) < max(places) < 10_000 * (worker + 1)
        assert max(places) - min(places) > 9_000


def write_tokens(configuration, train, validation, end_of_text):
    folder = token_folder(configuration)
    folder.mkdir()
    train.tofile(folder / "train.bin")
    validation.tofile(folder / "val.bin")
    sizes = {"train_tokens": len(train), "validation_tokens": len(validation)}
    write_manifest(folder, {"complete": True, "end_of_text": end_of_text, **sizes})


def test_loss_is_the_models_own_summed_over_tokens(task):
    torch.manual_seed(0)
    model, batch = task.build_model(), task.batch(0, 0)
    tokens = torch.cat([batch["inputs"], batch["targets"][:, -1:]], dim=1)
    logits = model(batch["inputs"]).logits.double()
    rows = [logits[i, j].log_softmax(0)[tokens[i, j + 1]] for i in range(4) for j in range(32)]
    assert task.weight(batch) == 4 * 32
    loss = task.loss_sum(model, batch).item()
    assert loss == pytest.approx(-sum(rows).item(), rel=1e-5)
    assert loss / 128 == pytest.approx(math.log(2048), rel=0.02)


def test_loss_is_float32_under_autocast_and_float64_in_double(task):
    model, batch = task.build_model(), task.batch(0, 0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(batch["inputs"]).logits.dtype == torch.bfloat16
        assert task.loss_sum(model, batch).dtype == torch.float32
    assert task.loss_sum(model.double(), batch).dtype == torch.float64


def test_micro_batches_add_up_to_the_batch(task):
    torch.manual_seed(0)
    model, batch = task.build_model().double(), task.batch(3, 1)
    parts = task.micro_batches(batch, 3)
    assert (joined(parts) == batch["inputs"]).all()
    assert sum(task.weight(part) for part in parts) == task.weight(batch)
    total = sum(task.loss_sum(model, part).item() for part in parts)
    assert total == pytest.approx(task.loss_sum(model, batch).item(), rel=1e-12)
    with pytest.raises(ValueError, match=r"trainer.micro_batches=5 .* 4 sequences: give a value from 1 to 4"):
        task.micro_batches(batch, 5)


@torch.no_grad()
def test_validation_does_not_depend_on_batch_or_world(build, task):
    torch.manual_seed(0)
    model = task.build_model().double().eval()
    results = []
    for changes in ({}, {"validation_batch": 7}, {"world_size": 1, "global_batch": 4, "seed": 9}):
        other = build(**{"validation_tokens": 2048, **changes})
        parts = [other.evaluate(model, batch) for batch in other.validation_batches()]
        assert sum(tokens for _, tokens in parts) == 2048
        results.append(other.summarise(parts)["val_loss"])
    assert results == pytest.approx([results[0]] * 3, rel=1e-12)


def test_summary_weighs_tokens(task):
    summary = task.summarise([(2.0, 1), (3.0, 9)])
    assert summary == {"val_loss": 0.5, "val_perplexity": math.exp(0.5)}
    assert all(math.isnan(value) for value in task.summarise([(math.nan, 1)]).values())
    assert task.summarise([(1e6, 1)])["val_perplexity"] == math.inf
    assert (task.primary_metric, task.lower_is_better, task.samples_per_step) == ("val_loss", True, 16)


def test_whole_validation_text_predicts_every_token_once(task, data_dir):
    tokens = load_tokens(settings(data_dir=data_dir)).validation
    assert sum(task.weight(batch) for batch in task.validation_batches()) == len(tokens) - 1


def test_training_lowers_the_loss_in_silence(task, capfd, recwarn):
    torch.manual_seed(0)
    model = task.build_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(30):
        batch = task.batch(step, worker=0)
        loss = task.loss_sum(model, batch) / task.weight(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 1
    assert capfd.readouterr() == ("", "")
    assert not list(recwarn)


def test_data_that_is_not_prepared_names_the_command(data_dir):
    hub = settings(data_dir=data_dir, dataset="owner/name")
    with pytest.raises(ValueError, match=r"dataset=owner/name are not prepared .*python -m scripts.prepare task=gpt2"):
        gpt2.build(hub, 1, 4)


def test_token_files_that_were_cut_are_refused(task, data_dir, tmp_path):
    moved = settings(data_dir=str(tmp_path))
    folder = token_folder(moved)
    folder.mkdir()
    for path in token_folder(settings(data_dir=data_dir)).iterdir():
        (folder / path.name).write_bytes(path.read_bytes()[: -2 if path.name == "train.bin" else None])
    with pytest.raises(ValueError, match=re.escape(f"{folder} are not those of its manifest")):
        load_tokens(moved)


def test_token_folder_tells_contents_apart():
    base = settings()
    same = [replace(base, context=64), replace(base, global_batch=8), replace(base, validation_tokens=64)]
    other = [replace(base, vocabulary=1024), replace(base, split_seed=1), replace(base, validation_fraction=0.1)]
    other += [
        replace(base, dataset="a/b"),
        replace(base, dataset="c/b"),
        replace(base, tokenizer="gpt2", vocabulary=50304),
    ]
    assert {token_folder(s) for s in same} == {token_folder(base)}
    assert len({token_folder(s) for s in [base, *other]}) == 1 + len(other)
    padded = replace(base, tokenizer="gpt2", vocabulary=50257)
    assert token_folder(padded) == token_folder(replace(padded, vocabulary=50304))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 15}, r"task.width=15 must be a multiple of task.heads=2"),
        ({"vocabulary": 70_000}, r"task.vocabulary=70000 .* from 257 to 65536"),
        ({"tokenizer": "gpt2"}, r"task.vocabulary=2048 .*tokenizer=gpt2: give a value from 50257"),
        ({"validation_fraction": 1.0}, r"task.validation_fraction=1.0"),
        ({"validation_tokens": 31}, r"task.validation_tokens=31 .*task.context=32"),
        ({"dropout": 1.0}, r"task.dropout=1.0"),
        ({"layers": 0}, r"task.layers=0 must be at least 1"),
    ],
)
def test_settings_refuse_what_cannot_work(changes, message):
    with pytest.raises(ValueError, match=message):
        settings(**changes)
