"""What judging many rollouts costs: run by bench.py in a process of its own; prints JSON."""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from pathlib import Path

from envwright.facts.observed import Facts, FunctionScore, Rollout
from envwright.packages.repository import Repository
from envwright.rules.engine import Subject, all_rules
from envwright.rules.verdict import judge

GROUP = 8


def main(count: int) -> None:
    """Judge this many rollouts of a made-up model, groups of eight, with a skill per task."""
    repository = Repository.load(Path(__file__).parents[1], ["gsm8k"])
    entry, package = repository.registry.environments["gsm8k"], repository.packages["gsm8k"]
    generator = random.Random(1)
    rollouts = []
    for task in range(count // GROUP):
        skill = generator.betavariate(0.6, 1.8)
        for number in range(GROUP):
            reward = float(generator.random() < skill)
            replies = ({"role": "assistant", "content": f"{task} {number} " + "word " * 100},)
            functions = {"correct_answer": FunctionScore(reward, 1.0, "reward")}
            rollouts.append(Rollout(task, "model", number, replies, reward, functions))
    facts = Facts("gsm8k", "key", package.digest, rollouts=tuple(rollouts), completed=("distribution",))
    all_rules()
    started = time.perf_counter()
    judge(Subject(entry, package, facts), ["distribution"])
    seconds = time.perf_counter() - started
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rollouts": len(rollouts), "seconds": seconds, "megabytes": megabytes}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
