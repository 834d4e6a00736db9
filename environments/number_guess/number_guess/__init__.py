"""Guess a number in few guesses, told each time whether it is higher or lower."""

from itertools import islice
from typing import Any, Literal

import verifiers as vf
from datasets import Dataset

from number_guess.game import SPARE_GUESSES, Game, answer_to, games, guesses_needed

__all__ = ["load_environment"]

SYSTEM_PROMPT = """You are playing a guessing game. Name one whole number per message in <guess>…</guess>. After each \
wrong guess you are told whether the number to find is higher or lower. Find it in as few guesses as you can."""

QUESTION = "My number is greater than {low} and less than {high}. You have {guesses} guesses."

PARSER = vf.Parser()


def replies(messages: vf.Messages) -> list[str]:
    """The texts of the model's messages."""
    return [PARSER.parse_answer([message]) or "" for message in PARSER.get_assistant_messages(messages)]


def success(completion: vf.Messages, answer: str, info: dict[str, int]) -> float:
    """Whether the number was found."""
    return float(guesses_needed(replies(completion), int(answer), info["most_guesses"]) is not None)


def efficiency(completion: vf.Messages, answer: str, info: dict[str, int]) -> float:
    """1.0 for a number found in as many guesses as halving needs at worst, less for each one more, 0.0 if not found."""
    needed = guesses_needed(replies(completion), int(answer), info["most_guesses"])
    if needed is None:
        return 0.0
    return 1.0 - max(0, needed - info["enough_guesses"]) / (SPARE_GUESSES + 1)


class NumberGuessEnv(vf.MultiTurnEnv):
    """Answers each guess until it is right or was the last."""

    async def env_response(self, messages: vf.Messages, state: vf.State, **kwargs: Any) -> vf.Messages:
        return [vf.UserMessage(content=answer_to(replies(messages)[-1], int(state["answer"])))]

    @vf.stop
    async def game_over(self, state: vf.State) -> bool:
        said = [text for step in state["trajectory"] for text in replies(step["completion"])]
        most = state["info"]["most_guesses"]
        return len(said) >= most or guesses_needed(said, int(state["answer"]), most) is not None


def row(game: Game) -> dict[str, Any]:
    most = game.enough_guesses + SPARE_GUESSES
    return {
        "question": QUESTION.format(low=game.low, high=game.high, guesses=most),
        "answer": str(game.secret),
        "info": {"low": game.low, "high": game.high, "enough_guesses": game.enough_guesses, "most_guesses": most},
    }


def load_environment(num_examples: int = 200, num_eval: int = 50, seed: int = 0) -> vf.Environment:
    """Guessing games made up from a seed: `num_examples` to train on and `num_eval` others to evaluate on."""

    def dataset(split: Literal["train", "eval"], size: int) -> Dataset:
        return Dataset.from_list([row(game) for game in islice(games(seed, split), size)])

    return NumberGuessEnv(
        dataset=dataset("train", num_examples),
        eval_dataset=dataset("eval", num_eval),
        system_prompt=SYSTEM_PROMPT,
        parser=PARSER,
        rubric=vf.Rubric(funcs=[success, efficiency], weights=[0.75, 0.25], parser=PARSER),
    )
