"""What the stories and the reading of answers promise."""

import re
from collections import Counter
from itertools import islice

import pytest
import verifiers.v1 as vf
from word_problems.answers import final_answer, whole_number
from word_problems.stories import stories


def test_the_same_seed_tells_the_same_stories():
    assert list(islice(stories(3), 100)) == list(islice(stories(3), 100))


def test_another_seed_tells_other_stories():
    assert not set(islice(stories(1), 500)) & set(islice(stories(2), 500))


def test_no_story_is_told_twice():
    told = [story.text for story in islice(stories(0), 3000)]
    assert len(set(told)) == len(told)


def test_no_story_shows_its_answer():
    assert all(str(story.answer) not in re.findall(r"\d+", story.text) for story in islice(stories(0), 3000))


def test_answers_are_positive():
    assert all(story.answer > 0 for story in islice(stories(0), 3000))


def test_every_family_is_told_about_equally_often():
    kinds = Counter(story.kind for story in islice(stories(0), 1000))
    assert kinds.keys() == {"collection", "products", "packing", "comparison"}
    assert min(kinds.values()) > 200


def test_no_placeholder_is_left_in_a_story():
    assert not any("{" in story.text or "}" in story.text for story in islice(stories(0), 3000))


@pytest.mark.parametrize("text", ["1234", "1,234", "1 234", "1\u202f234", "+1234", "$1,234", "1234.", "1234.00"])
def test_ways_to_write_a_whole_number(text: str):
    assert whole_number(text) == 1234


@pytest.mark.parametrize("text", ["-7", "−7", "-7.0"])
def test_ways_to_write_a_negative_number(text: str):
    assert whole_number(text) == -7


@pytest.mark.parametrize(
    "text", ["", " ", "12 apples", "1 or 2", "1,23", "1.5", "1e3", "４２", "٤٢", "0x10", "9" * 5000, "--1", "1,2345"]
)
def test_what_is_no_whole_number(text: str):
    assert whole_number(text) is None


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "42",
        "<answer>42",
        "42</answer>",
        "</answer>42<answer>",
        "<answer>41</answer><answer>42</answer>",
        "<answer>41<answer>42</answer>",
        "<answer>41</answer>42</answer>",
        "<think><answer>42</answer></think>",
        "<think><answer>42</answer>",
        "<answer>41</answer><think></think><answer>42</answer><think>",
    ],
)
def test_replies_without_one_final_answer(reply: str):
    assert final_answer(reply) is None


def test_the_answer_is_what_stands_in_the_tag():
    assert final_answer("<think>a < b</think> So: <answer>\n 42 </answer>.") == "42"


def test_the_config_decides_how_many_problems_there_are():
    config = vf.taskset_config_type("word_problems").model_validate({"id": "word_problems", "num_tasks": 7, "seed": 5})
    assert [task.data.idx for task in vf.load_taskset(config)] == list(range(7))
