"""Token files from a data set with the hub's schema: nanoGPT's split, kills, several processes, mistakes."""

import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import asdict

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.common.parallel import ordered_map
from tasks.gpt2.bpe import gpt2_bpe, train_bpe
from tasks.gpt2.preparation import encode_piece, prepare
from tasks.gpt2.source import PIECE, Streamed
from tasks.gpt2.tokens import load_tokens, read_manifest, token_folder
from tests.support import ROOT, commands
from tests.support.gpt2 import settings
from tests.support.processes import children, still_running

END = 50_256
DOCUMENTS = 10 * PIECE + 17


def texts(count=DOCUMENTS):
    words = ["gossip", " ring", " 日本", "\n\n", " it's", "<|endoftext|>", " 1790", "é", "  ", "𝛼"]
    draw = random.Random(0)
    return ["".join(draw.choices(words, k=draw.randrange(1, 12))) for _ in range(count)]


def write_parquet(folder, documents, files=3):
    folder.mkdir()
    size = len(documents) // files + 1
    for number in range(files):
        part = documents[number * size : (number + 1) * size]
        table = pa.table({"text": part, "url": ["u"] * len(part)})
        pq.write_table(table, folder / f"train-{number:05d}-of-{files:05d}.parquet", row_group_size=100)
    return str(folder)


def paper_like(tmp_path, dataset, **changes):
    published = {"tokenizer": "gpt2", "vocabulary": 50304, "validation_fraction": 0.0005, "split_seed": 2357}
    return settings(dataset=dataset, data_dir=str(tmp_path / "data"), **{**published, **changes})


def silent(done, total):
    pass


def nanogpt(documents, fraction):
    """Train (in order of the data set) and validation ids as nanoGPT's prepare.py makes them."""
    split = datasets.Dataset.from_dict({"text": documents, "place": list(range(len(documents)))}).train_test_split(
        test_size=fraction, seed=2357, shuffle=True
    )
    encode = gpt2_bpe().tokenizer.encode
    train = sorted(split["train"], key=lambda row: row["place"])
    return [[i for row in part for i in [*encode(row["text"]).ids, END]] for part in (train, split["test"])]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    return write_parquet(tmp_path_factory.mktemp("hub") / "owt", texts())


@pytest.fixture(scope="module")
def expected():
    return nanogpt(texts(), 0.01)


def check(configuration, expected):
    tokens = load_tokens(configuration)
    assert tokens.end_of_text == END
    assert tokens.train.tolist() == expected[0]
    assert tokens.validation.tolist() == expected[1]
    assert sorted(path.name for path in token_folder(configuration).iterdir()) == [
        "lock", "manifest.json", "tokenizer.json", "train.bin", "val.bin",
    ]  # fmt: skip


def test_token_files_hold_nanogpts_split(tmp_path, parquet, expected):
    configuration = paper_like(tmp_path, parquet, validation_fraction=0.01)
    seen = []
    summary = prepare(configuration, lambda *progress: seen.append(progress), processes=1)
    check(configuration, expected)
    assert seen[0] == (0, DOCUMENTS)
    assert seen[-1] == (DOCUMENTS, DOCUMENTS)
    assert f"{DOCUMENTS:,} documents" in summary
    assert f"{len(expected[0]):,} training tokens" in summary
    assert "tokens/s a core" in summary
    manifest = read_manifest(token_folder(configuration))
    assert (manifest["documents"], manifest["dataset"], manifest["complete"]) == (DOCUMENTS, parquet, True)
    assert "prepared before" in prepare(configuration, silent)


def test_openwebtexts_own_numbers_give_its_known_validation_size(parquet):
    source = Streamed(parquet)
    source.count = 8_013_769
    held_out = source.held_out(0.0005, 2357)
    assert len(set(held_out.tolist())) == len(held_out) == 4007


def test_json_lines_are_read_as_parquet_is(tmp_path, expected):
    folder = tmp_path / "jsonl"
    folder.mkdir()
    (folder / "part.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
    configuration = paper_like(tmp_path, str(folder), validation_fraction=0.01)
    prepare(configuration, silent, processes=1)
    check(configuration, expected)


def test_stream_continues_from_every_state(parquet):
    pieces = list(Streamed(parquet).pieces(None))
    assert [text for piece, _ in pieces for text in piece] == texts()
    for number, (_, state) in enumerate(pieces):
        rest = [text for piece, _ in Streamed(parquet).pieces(json.loads(json.dumps(state))) for text in piece]
        assert rest == texts()[PIECE * (number + 1) :]


RUN = """
import sys, time  # nothing else here: each tokenising process imports this file

def report(done, total):
    print(done, flush=True)
    time.sleep(float(sys.argv[2]))

if __name__ == "__main__":
    import json
    import tasks.gpt2.preparation as preparation
    from tasks.gpt2 import Settings
    preparation.CHECKPOINT_SECONDS = 0.0
    preparation.prepare(Settings(**json.loads(sys.argv[1])), report, processes=2)
"""


def start(tmp_path, configuration, pause):
    script = tmp_path / "run.py"
    script.write_text(RUN)
    command = [sys.executable, str(script), json.dumps(asdict(configuration)), str(pause)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def test_killed_preparation_continues_to_the_same_bytes_and_leaves_no_process(tmp_path, parquet, expected):
    configuration = paper_like(tmp_path, parquet, validation_fraction=0.01)
    folder = token_folder(configuration)
    settled = 0
    for pieces in (2, 3):
        process = start(tmp_path, configuration, pause=0.2)
        for _ in range(pieces + 1):
            assert process.stdout.readline()
        workers = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert len(workers) >= 2
        assert not still_running(workers)
        manifest = read_manifest(folder)
        assert settled < manifest["documents"] < DOCUMENTS
        assert not manifest["complete"]
        settled = manifest["documents"]
        with (folder / "train.bin").open("ab") as file:
            file.write(b"written, but not settled")
        with pytest.raises(ValueError, match="prepared only in part"):
            load_tokens(configuration)
    seen = []
    prepare(configuration, lambda *progress: seen.append(progress), processes=1)
    assert seen[0] == (settled, DOCUMENTS)
    check(configuration, expected)


def test_preparations_that_start_together_take_turns(tmp_path, parquet, expected):
    configuration = paper_like(tmp_path, parquet, validation_fraction=0.01)
    processes = [start(tmp_path, configuration, pause=0) for _ in range(2)]
    outputs = [process.communicate(timeout=100)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert min(map(len, outputs)) == 0 < max(map(len, outputs))  # one found the files complete
    check(configuration, expected)


@pytest.mark.parametrize("processes", [1, 2])
def test_pieces_are_encoded_in_order_with_their_states(processes):
    bpe = gpt2_bpe()
    pieces = [([f"document {number}"], number) for number in range(60)]
    found = list(ordered_map(encode_piece, pieces, bpe, processes))
    assert [state for _, state in found] == list(range(60))
    for number, (documents, _) in enumerate(found):
        assert documents[0].tolist() == bpe.encode([f"document {number}"])[0].tolist()


def test_gpt2_bpe_gives_the_published_ids():
    bpe = gpt2_bpe()
    ids = [ids.tolist() for ids in bpe.encode(["Hello world", "<|endoftext|>", ""])]
    assert bpe.end_of_text == END
    assert ids[0] == [15496, 995, END]
    assert ids[1] == [27, 91, 437, 1659, 5239, 91, 29, END]  # ordinary bytes, not the end of a document
    assert ids[2] == [END]
    assert bpe.tokenizer.get_vocab_size() == 50_257


def test_trained_bpe_has_exactly_the_entries_asked_for_and_covers_all_bytes():
    bpe = train_bpe(["the ring and the rest of the ring"] * 3, 270)
    assert bpe.end_of_text == 269
    assert bpe.tokenizer.get_vocab_size() == 269
    ids = bpe.encode(["the ring", "日本"])
    assert len(ids[0]) < len("the ring") + 1
    assert len(ids[1]) == len("日本".encode()) + 1
    with pytest.raises(ValueError, match=r"not of 5000: lower task.vocabulary"):
        train_bpe(["short"], 5000)


def test_data_without_text_is_refused(tmp_path):
    folder = tmp_path / "columns"
    folder.mkdir()
    pq.write_table(pa.table({"body": ["x"], "url": ["y"]}), folder / "a.parquet")
    with pytest.raises(ValueError, match=r"no documents in a column `text`; its columns are \['body', 'url'\]"):
        prepare(paper_like(tmp_path, str(folder)), silent, processes=1)


def test_folder_without_data_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty can't be read .* local folder of .parquet or .jsonl files"):
        prepare(paper_like(tmp_path, str(tmp_path / "empty")), silent, processes=1)


def test_split_that_leaves_no_training_text_is_refused(tmp_path):
    dataset = write_parquet(tmp_path / "one", ["the only document"], files=1)
    with pytest.raises(ValueError, match="holds out all 1 documents"):
        prepare(paper_like(tmp_path, dataset), silent, processes=1)


def test_token_file_cut_behind_its_manifest_is_refused(tmp_path, parquet):
    configuration = paper_like(tmp_path, parquet, validation_fraction=0.01)

    def stop_half_way(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.gpt2.preparation.CHECKPOINT_SECONDS", 0.0)
        with pytest.raises(KeyboardInterrupt):
            prepare(configuration, stop_half_way, processes=1)
    os.truncate(token_folder(configuration) / "train.bin", 10)
    with pytest.raises(ValueError, match=r"train.bin is shorter than its manifest says. Delete .* and prepare again"):
        prepare(configuration, silent, processes=1)


def test_data_set_that_changed_its_size_is_refused(tmp_path, parquet, monkeypatch):
    monkeypatch.setattr(Streamed, "_count", lambda self: DOCUMENTS + 1)
    with pytest.raises(ValueError, match=f"gave {DOCUMENTS} documents where {DOCUMENTS + 1} were expected"):
        prepare(paper_like(tmp_path, parquet), silent, processes=1)


def test_command_prepares_and_reports(tmp_path, parquet):
    overrides = ["task=gpt2", "scale=paper", f"task.dataset={parquet}", f"task.data_dir={tmp_path}"]
    done = commands.run("scripts.prepare", *overrides)
    assert done.returncode == 0, done.stderr
    assert f"{DOCUMENTS:,} documents" in done.stdout
    assert "tokens/s a core" in done.stdout
    assert f"{DOCUMENTS:,}/{DOCUMENTS:,} done  left 0:00" in done.stderr
