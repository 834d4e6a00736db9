"""Cases of the rules on the finds of the exploit search."""

from __future__ import annotations

from envwright.declarations.package import RewardDeclaration
from envwright.facts.search import Broken, Earned, Exploit, PanelTask, Search
from rule_cases import RuleCases
from subjects import subject


def panel(tasks: int = 3, gold: float = 1.0) -> tuple[PanelTask, ...]:
    return tuple(PanelTask(task, f"4{task}", gold, 0.0, {"correct_answer": 1.0}) for task in range(tasks))


def exploit(kind: str, *rewards: float, reply: str = "<answer>40 41</answer>", **changes) -> Exploit:
    """A find that earns these rewards on the first probe tasks."""
    earned = tuple(
        Earned(task, reply, reward, {"correct_answer": reward, "format_reward": 1.0})
        for task, reward in enumerate(rewards)
    )
    changes.setdefault("functions", ("correct_answer",))
    pattern, why = "several answers", "it lists 2 answers that exclude each other"
    return Exploit(kind, pattern, why, reply, "seeds", 300, earned, **changes)


def searched(*exploits: Exploit, tasks: int = 3, gold: float = 1.0, broken: tuple[Broken, ...] = (), **changes):
    search = Search(
        seed=0,
        ended="found" if exploits else "evaluations",
        evaluations=900,
        limit=3000,
        panel=panel(tasks, gold),
        chance=0.1,
        exploits=exploits,
        broken=broken,
    )
    return subject(search=search, **changes)


NOTHING_FOUND = searched()
SKIPPED = subject(search=Search(0, "skipped", "there is no reference reply"))
FORM_PAYS_HALF = RewardDeclaration(format=("format_reward",), format_share=0.5)
HANGING = Broken(0, "((((", "correct_answer", "timeout", "OutOfTime", "took longer than 2 s")

CASES = {
    "RWD085": RuleCases(
        fires={
            "like gold on two of three": searched(exploit("blind", 1.0, 1.0, 0.2)),
            "all but the share of form": searched(exploit("blind", 0.8, 0.8, 0.8)),
            "between minus one and one": searched(
                exploit("blind", 1.0, 1.0, -1.0), declared=RewardDeclaration(min=-1.0, max=1.0, format_share=0.0)
            ),
            "a maximum of ten": searched(exploit("blind", 10.0, 10.0), gold=10.0, declared=RewardDeclaration(max=10.0)),
        },
        silent={
            "nothing was found": NOTHING_FOUND,
            "nothing was searched": SKIPPED,
            "right on one task by chance": searched(exploit("blind", 1.0, 0.2, 0.2)),
            "no more than form may earn": searched(exploit("blind", 0.5, 0.5, 0.5), declared=FORM_PAYS_HALF),
            "penalties take most of it": searched(exploit("blind", 0.4, 0.4, 0.4)),
        },
    ),
    "RWD086": RuleCases(
        fires={
            "on two tasks": searched(exploit("wrong", 1.0, 1.0)),
            "in several ways": searched(exploit("wrong", 1.0, 1.0), exploit("wrong", 1.0, 1.0, reply="not 40")),
        },
        silent={
            "nothing was found": NOTHING_FOUND,
            "on one task of three": searched(exploit("wrong", 1.0)),
            "paid for its form alone": searched(exploit("wrong", 0.2, 0.2)),
        },
    ),
    "RWD087": RuleCases(
        fires={
            "length is paid": searched(exploit("unearned", 0.5, 0.5, 0.5, functions=("effort",))),
            "with a declared share of form": searched(
                exploit("unearned", 0.7, 0.7, 0.7, functions=("effort",)), declared=FORM_PAYS_HALF
            ),
        },
        silent={
            "nothing was found": NOTHING_FOUND,
            "a crumb": searched(exploit("unearned", 0.26, 0.26, 0.26, functions=("effort",))),
            "declared as form": searched(
                exploit("unearned", 0.5, 0.5, 0.5, functions=("format_reward",)), declared=FORM_PAYS_HALF
            ),
            "not on every task": searched(exploit("unearned", 0.5, 0.5, 0.2, functions=("effort",))),
            "the same reply is paid in full": searched(
                exploit("blind", 1.0, 1.0, 1.0), exploit("unearned", 1.0, 1.0, 1.0)
            ),
        },
    ),
    "RWD088": RuleCases(
        fires={"more than half everywhere": searched(exploit("partial", 0.7, 0.8, 0.7))},
        silent={
            "nothing was found": NOTHING_FOUND,
            "less than half somewhere": searched(exploit("partial", 0.7, 0.5, 0.7)),
            "on two tasks only": searched(exploit("partial", 0.7, 0.8), tasks=2),
        },
    ),
    "RWD089": RuleCases(
        fires={"a reply hangs": searched(broken=(HANGING,))},
        silent={"nothing broke": NOTHING_FOUND, "nothing was searched": SKIPPED},
    ),
}
