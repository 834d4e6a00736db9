"""What the calendars and the reading of hours promise."""

from itertools import islice

import pytest
from meeting_time.calendars import HOURS, agreed, calendars, named_hour


def test_the_same_seed_makes_the_same_calendars():
    assert list(islice(calendars(3), 100)) == list(islice(calendars(3), 100))


def test_both_are_free_in_one_hour_only():
    assert all({*HOURS} - {*pair.ana} - {*pair.ben} == {pair.hour} for pair in islice(calendars(0), 500))


def test_nobody_can_tell_the_hour_alone():
    assert all(len({*HOURS} - {*busy}) > 1 for pair in islice(calendars(0), 500) for busy in (pair.ana, pair.ben))


@pytest.mark.parametrize("text", ["9", "09", " 9 ", "9:00"])
def test_ways_to_write_an_hour(text: str):
    assert named_hour(f"<think>10?</think>So <meeting>{text}</meeting>") == 9


@pytest.mark.parametrize("text", ["", "nine", "9 or 10", "9:30", "900", "٩", "-9"])
def test_what_is_no_hour(text: str):
    assert named_hour(f"<meeting>{text}</meeting>") is None


def test_they_agree_when_both_name_the_same_hour():
    nine, ten = "<meeting>9</meeting>", "<meeting>10</meeting>"
    assert agreed(nine, nine) == 9
    assert agreed(nine, ten) is None
    assert agreed(nine, "Fine.") is None
    assert agreed("Fine.", "Fine.") is None
