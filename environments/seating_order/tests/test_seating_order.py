"""What the puzzles and the reading of letters promise."""

from collections import Counter
from itertools import islice

import pytest
from seating_order.rows import CLUES, puzzles
from seating_order.taskset import final_letter


def test_the_same_seed_makes_the_same_puzzles():
    assert list(islice(puzzles(3), 50)) == list(islice(puzzles(3), 50))


def test_no_puzzle_has_the_clues_of_another():
    made = [tuple(puzzle.clues) for puzzle in islice(puzzles(0), 500)]
    assert len(set(made)) == len(made)


def test_every_letter_is_right_about_equally_often():
    letters = Counter(puzzle.letter for puzzle in islice(puzzles(0), 500))
    assert letters.keys() == set("ABCDE")
    assert min(letters.values()) > 60


@pytest.mark.parametrize(
    ("text", "seats", "holds"),
    [
        ("left", (1, 2), True), ("left", (2, 1), False), ("right", (2, 1), True), ("right", (3, 1), False),
        ("{b} sit side", (1, 2), True), ("{b} sit side", (1, 3), False), ("not", (1, 3), True), ("not", (2, 1), False),
        ("one person", (3, 1), True), ("one person", (1, 2), False),
    ],
)  # fmt: skip
def test_what_a_clue_says(text: str, seats: tuple[int, int], holds: bool):
    (clue,) = (says for words, says in CLUES.items() if text in words)
    assert clue(*seats) is holds


@pytest.mark.parametrize("answer", ["B", "(B)", "B)", "B.", "\n B\n"])
def test_ways_to_write_a_letter(answer: str):
    assert final_letter(f"<think>A?</think>So <answer>{answer}</answer>") == "B"


@pytest.mark.parametrize("answer", ["", "b", "F", "AB", "A or B", "B) Boris", "(B", "..B"])
def test_what_is_no_letter(answer: str):
    assert final_letter(f"<answer>{answer}</answer>") is None
