"""People to sort, handed out in batches."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

FIRST = """Ada Amir Ana Bela Boris Carmen Chen Dario Dina Emil Esther Fadi Freya Gita Hugo Ines Ivan Jana Jorge Karim
Kira Leo Lucia Malik Mina Nils Noor Olga Otto Paula Qadir Rafael Rita Samir Selma Tara Tomas Ursula Vik Wanda Xenia
Yara Zane""".split()
LAST = """Abbott Adler Bakker Berg Castillo Cohen Delgado Dubois Eriksen Fischer Fontana Garcia Gupta Haddad Hansen
Ishida Ivanov Jansen Kapoor Keller Kowalski Lambert Lopez Mbeki Meyer Nakamura Novak Okafor Olsen Park Petrov Quist
Rossi Ruiz Sato Schmidt Tanaka Torres Ueda Vargas Weber Xu Yilmaz Zhang""".split()

KEYS: dict[str, Callable[[str], str]] = {
    "first name": lambda person: person.split()[0],
    "last name": lambda person: person.split()[1],
}


class Guests(NamedTuple):
    """Batches of people who arrive one after the other, and what they are sorted by."""

    key: str
    batches: list[list[str]]

    def sorted_lists(self) -> list[list[str]]:
        """After each batch, everyone so far in order."""
        everyone = [sum(self.batches[: i + 1], []) for i in range(len(self.batches))]
        return [sorted(people, key=KEYS[self.key]) for people in everyone]


def guests(seed: int, most_turns: int) -> Iterator[Guests]:
    """Endless guest lists in two to `most_turns` batches. No two people of a list share a first or last name."""
    rng = Random(seed)
    while True:
        sizes = [rng.randint(3, 5), *(rng.randint(1, 4) for _ in range(rng.randint(1, most_turns - 1)))]
        people = [" ".join(pair) for pair in zip(rng.sample(FIRST, sum(sizes)), rng.sample(LAST, sum(sizes)), strict=True)]
        party = Guests(rng.choice(list(KEYS)), [[people.pop() for _ in range(size)] for size in sizes])
        if party.sorted_lists()[0] != party.batches[0]:
            yield party
