"""How near a text is to the one that was wanted."""


def edit_distance(a: str, b: str) -> int:
    """The least number of characters to insert, delete or replace that turns `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        above, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (x != y)))
    return row[-1]


def similarity(text: str, wanted: str) -> float:
    """1.0 for the wanted text, less by 2 / len(wanted) for each edit it is away from it, and never below 0.0.

    Half the characters wrong thus earns nothing, which is what copying, guessing letters, or giving two texts at once
    comes to. A length that is off by half is as bad without looking, so long replies cost nothing to score.
    """
    if 2 * abs(len(text) - len(wanted)) >= len(wanted):
        return 0.0
    return max(0.0, 1.0 - 2.0 * edit_distance(text, wanted) / len(wanted))
