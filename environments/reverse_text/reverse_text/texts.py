"""Made-up sentences to reverse: words, names and numbers with capitals and punctuation."""

from collections.abc import Iterator
from random import Random

from reverse_text.similarity import similarity

WORDS = """amber anchor apple autumn basket bridge bright candle castle cloud coffee copper crisp dancing distant early
eleven feather fern forest frozen garden gentle ginger glass golden harbour hidden honey island jacket jungle kettle
ladder lantern lemon little market marble meadow midnight mirror mountain narrow needle never ocean orange paper pepper
pocket puzzle quiet rabbit ribbon river rocket rusty sailor salt seven shadow silver slowly spring station stone sudden
summer thunder ticket tiger turtle twelve under velvet violin walnut whisper wild window winter wooden yellow zebra
Alice Berlin Cairo Diego Elena Friday Ghana Hugo Kyoto Lagos Maria Monday Nairobi Oslo Pavel Quito Tokyo""".split()


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
