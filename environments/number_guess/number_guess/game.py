"""The rules of the game: a secret number, guesses and answers to them."""

import re
from collections.abc import Iterator
from random import Random
from typing import Literal, NamedTuple
from zlib import crc32

SPARE_GUESSES = 3
GUESS = re.compile(r"\d{1,3}(?:,\d{3}){1,2}|\d{1,9}", re.ASCII)  # 1234 or 1,234, in ASCII digits


class Game(NamedTuple):
    """Find `secret`, which is greater than `low` and less than `high`."""

    low: int
    high: int
    secret: int

    @property
    def enough_guesses(self) -> int:
        """How many guesses halving the numbers left needs at worst."""
        return (self.high - self.low - 1).bit_length()


def games(seed: int, split: Literal["train", "eval"]) -> Iterator[Game]:
    """Endless games of a split, no two with the same bounds.

    A checksum of the bounds decides the split, so no seed ever puts a game of one split into the other.
    """
    rng, played = Random(seed), set[tuple[int, int]]()
    while True:
        low, size = rng.randint(20, 5000), round(10 ** rng.uniform(1, 3.3))
        game = Game(low, low + size + 1, low + rng.randint(1, size))
        bounds = game.low, game.high
        if bounds not in played and (crc32(f"{bounds}".encode()) % 5 == 0) == (split == "eval"):
            played.add(bounds)
            yield game


def read_guess(reply: str) -> int | None:
    """The number in the one `<guess>` tag after any thinking; None without such a tag or with several."""
    final = reply.partition("</think>")[2] or reply
    before, _, rest = final.partition("<guess>")
    guess, closed, after = rest.partition("</guess>")
    stray = "think>" in final or "</guess>" in before + after or "<guess>" in rest
    if stray or not closed or not GUESS.fullmatch(guess.strip()):
        return None
    return int(guess.replace(",", ""))


def answer_to(reply: str, secret: int) -> str:
    """What the player is told about a guess that did not end the game."""
    guess = read_guess(reply)
    if guess is None:
        return "That is not one whole number in <guess>…</guess>. It counts as a guess."
    return "My number is higher." if guess < secret else "My number is lower."


def guesses_needed(replies: list[str], secret: int, most: int) -> int | None:
    """How many replies it took to name the secret, or None if it was not named within the first `most`."""
    return next((i for i, reply in enumerate(replies[:most], start=1) if read_guess(reply) == secret), None)
