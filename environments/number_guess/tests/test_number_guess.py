"""What the games, the reading of guesses and the rewards promise."""

from itertools import islice

import pytest
from number_guess import efficiency, load_environment, row, success
from number_guess.game import SPARE_GUESSES, Game, answer_to, games, guesses_needed, read_guess


def said(*numbers: int) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": f"<guess>{number}</guess>"} for number in numbers]


def halve(game: Game) -> list[int]:
    """The guesses of a player who always halves what is left."""
    low, high, guesses = game.low, game.high, []
    while not guesses or guesses[-1] != game.secret:
        guesses.append((low + high) // 2)
        low, high = (guesses[-1], high) if guesses[-1] < game.secret else (low, guesses[-1])
    return guesses


def earned(game: Game, *numbers: int) -> tuple[float, float]:
    info = row(game)["info"]
    return success(said(*numbers), str(game.secret), info), efficiency(said(*numbers), str(game.secret), info)


def test_the_same_seed_plays_the_same_games():
    assert list(islice(games(3, "train"), 100)) == list(islice(games(3, "train"), 100))


def test_no_two_games_have_the_same_bounds():
    bounds = [(game.low, game.high) for game in islice(games(0, "train"), 3000)]
    assert len(set(bounds)) == len(bounds)


def test_no_seed_trains_on_a_game_of_the_evaluation():
    held_out = {game[:2] for seed in range(5) for game in islice(games(seed, "eval"), 500)}
    assert not any(game[:2] in held_out for seed in range(5) for game in islice(games(seed, "train"), 2000))


def test_the_question_does_not_show_the_secret():
    for game in islice(games(0, "train"), 3000):
        assert game.low < game.secret < game.high
        assert game.enough_guesses + SPARE_GUESSES <= game.low


def test_halving_always_earns_everything():
    assert {earned(game, *halve(game)) for game in islice(games(0, "train"), 3000)} == {(1.0, 1.0)}


def test_halving_needs_exactly_enough_guesses_at_worst():
    assert all(
        max(len(halve(game._replace(secret=secret))) for secret in range(game.low + 1, game.high))
        == game.enough_guesses
        for game in islice(games(0, "train"), 20)
    )


def test_every_guess_beyond_enough_costs_the_same():
    game = Game(100, 109, 101)
    wrong = [102] * (game.enough_guesses - 1)
    results = [earned(game, *wrong, *[102] * spare, 101) for spare in range(SPARE_GUESSES + 2)]
    assert results == [(1.0, 1.0), (1.0, 0.75), (1.0, 0.5), (1.0, 0.25), (0.0, 0.0)]


def test_a_game_without_guesses_earns_nothing():
    assert earned(Game(100, 109, 101)) == (0.0, 0.0)


@pytest.mark.parametrize(
    "reply", ["<guess>1234</guess>", "Next: <guess> 1,234 </guess>", "<think>5</think><guess>1234</guess>"]
)
def test_ways_to_guess(reply: str):
    assert read_guess(reply) == 1234


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "1234",
        "<guess>1234",
        "<guess>1 or 2</guess>",
        "<guess>1.5</guess>",
        "<guess>１２</guess>",
        "<guess>-3</guess>",
        "<guess>" + "9" * 5000 + "</guess>",
        "<guess>1</guess><guess>2</guess>",
        "<think><guess>1</guess></think>",
        "<think><guess>1</guess>",
    ],
)
def test_what_is_no_guess(reply: str):
    assert read_guess(reply) is None


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("<guess>3</guess>", "higher"), ("<guess>9</guess>", "lower"), ("five?", "counts as a guess")],
)
def test_the_player_is_told_what_to_make_of_a_guess(reply: str, answer: str):
    assert answer in answer_to(reply, 5)


def test_replies_that_are_no_guess_are_counted():
    assert guesses_needed(["hm", "<guess>1</guess>", "<guess>5</guess>"], secret=5, most=3) == 3
    assert guesses_needed(["hm", "<guess>1</guess>", "<guess>5</guess>"], secret=5, most=2) is None


def test_the_arguments_decide_how_many_games_there_are():
    env = load_environment(num_examples=20, num_eval=5, seed=1)
    train, held_out = env.get_dataset(), env.get_eval_dataset()
    assert (len(train), len(held_out)) == (20, 5)
    assert not set(train["question"]) & set(held_out["question"])
