"""What the words and the rules promise."""

import pytest
from taboo_words.descriptions import ENTRIES, Entry, final_description, keeps_the_rules


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.word)
def test_every_description_keeps_its_own_rules(entry: Entry):
    assert keeps_the_rules(entry.description, entry.word, entry.taboo)


def test_no_word_is_there_twice():
    assert len({entry.word for entry in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.word)
def test_the_taboo_words_are_in_small_letters_and_not_so_short_that_they_are_in_every_word(entry: Entry):
    assert all(word.islower() and len(word) > 2 for word in entry.taboo)


@pytest.mark.parametrize(
    "description",
    [
        None,
        "",
        "Too short for a sentence.",
        "This sentence has no full stop at its end at all",
        "One sentence is what was asked for. This text has two of them.",
        "A taboo word may not be hidden in rainy days of autumn either.",
        "Capital letters do not help a RAIN that everybody can see here.",
        "Nor may the umbrella itself be named in this sentence, of course.",
        "Nothing with <b>tags</b> or brackets is taken for a plain sentence here.",
        "Numbers such as 42 are not taken for a plain sentence here either.",
        "w " * 40 + "w.",
    ],
)
def test_what_breaks_the_rules(description: str | None):
    assert not keeps_the_rules(description, "umbrella", ["rain", "water"])


def test_the_description_stands_behind_the_thinking():
    assert final_description("<think>Hm.</think><description> A b. </description>") == "A b."
