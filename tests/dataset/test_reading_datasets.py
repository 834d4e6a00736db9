"""Files of all kinds, whole and broken, and what is seen of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from envops.authoring.dataset.profile import profiled
from envops.authoring.dataset.source import SourceProblem, is_hub_name, open_local, split_named_by
from envops.cli.main import main

DATASETS = Path(__file__).parent / "datasets"


def test_columns_tell_types_gaps_and_lengths():
    split = profiled(open_local(DATASETS / "hash_numbers.jsonl")).largest()
    column = next(column for column in split.columns if column.name == "answer")
    assert (split.rows, column.types, column.missing, column.distinct) == (24, {"text": 23}, 1, 23)
    assert column.shortest <= column.typical <= column.longest


def test_splits_of_a_folder_are_named_by_their_files_and_compared():
    profile = profiled(open_local(DATASETS / "splits"))
    assert {split.name: split.rows for split in profile.splits} == {"test": 10, "train": 20}
    assert profile.overlap("question") == {("test", "train"): 3}


def test_repeated_rows_are_counted(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text('{"q": 1}\n{"q": 2}\n{"q": 1}\n')
    assert profiled(open_local(tmp_path / "a.jsonl")).largest().repeated == 1


def test_a_large_file_is_read_only_as_far_as_asked(tmp_path: Path):
    file = tmp_path / "large.jsonl"
    file.write_text('{"question": "How many?", "answer": "1"}\n' * 5000 + "this is no JSON")
    split = profiled(open_local(file), 1000).largest()
    assert (split.rows, split.complete, len(split.sample)) == (1000, False, 1000)


def test_the_sample_of_a_large_file_comes_from_all_of_it_and_is_the_same_each_time(tmp_path: Path):
    file = tmp_path / "large.jsonl"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(20_000)))
    first, second = (profiled(open_local(file)).largest().sample for _ in range(2))
    assert first == second
    assert len(first) == 2000
    assert first[-1][0] > 19_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "q,a\nx,1\n"),
        ("a.csv", "q;a\nx;1\n"),
        ("a.tsv", "q\ta\nx\t1\n"),
        ("a.csv", "\ufeffq,a\nx,1\n"),
        ("a.json", '[{"q": "x", "a": "1"}]'),
        ("a.json", '{"data": [{"q": "x", "a": "1"}], "version": "2"}'),
        ("a.json", '{"q": "x", "a": "1"}\n{"q": "y", "a": "2"}\n'),
        ("a.ndjson", '{"q": "x", "a": "1"}\n\n'),
    ],
)
def test_kinds_of_files_give_the_same_row(tmp_path: Path, name: str, text: str):
    (tmp_path / name).write_text(text, "utf-8")
    assert next(open_local(tmp_path / name).splits[0].rows()) == {"q": "x", "a": "1"}


def test_compressed_files_are_read(tmp_path: Path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"q": "x"}\n'))
    assert list(open_local(tmp_path / "a.jsonl.gz").splits[0].rows()) == [{"q": "x"}]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b'{"q": 1}\n{"q": \n', "a.jsonl:2: is no JSON"),
        ("a.jsonl", b"[1, 2]\n", "is list, not an object"),
        ("a.jsonl", b'{"q": "\xff"}\n', "is not UTF-8"),
        ("a.parquet", b"PAR1 and then nothing", "is no Parquet"),
        ("a.csv", b"What is 2 plus 2?,4\nWhat is 3 plus 2?,5\n", "a.csv:1: the first line has no names of columns"),
        ("a.xlsx", b"", "is of no known format"),
        ("a.jsonl.gz", gzip.compress(b'{"q": 1}\n' * 999, mtime=0)[:-20], "cannot be read"),
    ],
)
def test_a_broken_file_is_named_with_its_line_and_a_remedy(tmp_path: Path, name: str, content: bytes, said: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceProblem) as raised:
        profiled(open_local(tmp_path / name))
    assert said in raised.value.reason
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("file", "split"),
    [("train.jsonl", "train"), ("gsm8k-test.jsonl", "test"), ("val.csv", "validation"), ("dev/part-0.parquet", "dev"),
     ("questions.jsonl", "train"), ("data/train-00000-of-00002.parquet", "train"), ("contest.csv", "train")],
)  # fmt: skip
def test_names_of_files_and_folders_tell_the_split(tmp_path: Path, file: str, split: str):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    assert split_named_by(path, tmp_path) == split


def test_an_empty_folder_says_what_can_be_read(tmp_path: Path):
    with pytest.raises(SourceProblem, match="no file that can be read"):
        open_local(tmp_path)


@pytest.mark.parametrize(
    ("name", "hub"),
    [
        ("openai/gsm8k", True),
        ("squad", True),
        ("a.jsonl", False),
        ("./a/b", False),
        ("/data/a", False),
        ("x/y.csv", False),
    ],
)
def test_what_is_not_here_and_looks_like_it_is_looked_for_on_the_hub(name: str, hub: bool):
    assert is_hub_name(name) is hub


def test_inspect_says_it_in_json_for_programs(capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(DATASETS / "splits"), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["answer"]["format"] == "number"
    assert said["overlap"] == [{"splits": ["test", "train"], "questions": 3}]
    assert said["recommendation"]["command"].startswith("nox -s new -- NAME --data ")


def test_inspect_shows_tables_to_people(capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", str(DATASETS / "boolean_mixed_case.csv")]) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("verified_by", "yes/no", "row 18", "near misses", "nox -s new --"))


def test_inspect_gives_no_recommendation_without_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "a.jsonl").write_text('{"text": "Only words."}\n' * 3)
    assert main(["inspect", str(tmp_path / "a.jsonl")]) == 3
    assert "no answers recognised" in capsys.readouterr().out


def test_a_source_that_is_not_there_is_a_usage_error(capsys: pytest.CaptureFixture[str]):
    assert main(["inspect", "nowhere/at/all.jsonl"]) == 2
    assert "does not exist" in capsys.readouterr().err
