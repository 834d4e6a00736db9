"""Made-up sentences to reverse: words, names and numbers with capitals and punctuation."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

from reverse_text.similarity import similarity

WORDS = Path(__file__).with_name("words.txt").read_text("utf-8").split()


def sentence(rng: Random, words: int) -> str:
    """A sentence of so many words, some followed by a comma, some of them numbers."""
    parts = [rng.choice(WORDS) if rng.random() < 0.9 else str(rng.randint(2, 9999)) for _ in range(words)]
    body = parts[0][0].upper() + parts[0][1:]
    for part in parts[1:]:
        body += rng.choice((" ", " ", " ", ", ")) + part
    return body + rng.choice(".!?")


def texts(seed: int, longest: int) -> Iterator[str]:
    """Endless sentences of two to `longest` words, no two alike and none that is nearly its own reverse."""
    rng, given = Random(seed), set[str]()
    while True:
        text = sentence(rng, rng.randint(2, longest))
        if text not in given and similarity(text, text[::-1]) == 0.0:
            given.add(text)
            yield text


def strings(seed: int, letters: int) -> Iterator[str]:
    """All strings of so many letters a to c, shuffled, without those that are nearly their own reverse."""
    every = ["".join(each) for each in product("abc", repeat=letters)]
    Random(seed).shuffle(every)
    return (text for text in every if similarity(text, text[::-1]) == 0.0)
