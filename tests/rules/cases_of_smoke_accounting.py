"""Cases of the rules about which rollouts an evaluation has."""

from __future__ import annotations

from rule_cases import RuleCases
from subjects import SOUND_ROLLOUTS, failure, rollout, subject


def lost(kind: str, **changes):
    return subject(
        rollouts=(*SOUND_ROLLOUTS[:-1], rollout("blend", 0, 3, reward=None, failure=failure(kind=kind), **changes))
    )


CASES = {
    "SMK010": RuleCases(
        fires={
            "one came twice": subject(rollouts=(*SOUND_ROLLOUTS[:-1], SOUND_ROLLOUTS[0])),
            "one that was not requested": subject(rollouts=(*SOUND_ROLLOUTS, rollout("oracle", 77))),
        },
        silent={
            "each came once": subject(),
            "one is lost": subject(rollouts=SOUND_ROLLOUTS[:-1]),
            "what was asked is not known": subject(
                rollouts=(*SOUND_ROLLOUTS, rollout("oracle", 77)), rollouts_asked={}
            ),
        },
    ),
    "SMK011": RuleCases(
        fires={"provider": lost("provider"), "harness": lost("harness", retries=2), "disk": lost("infrastructure")},
        silent={"none": subject(), "the environment's own": lost("raised"), "time": lost("timeout", timed_out=True)},
    ),
    "SMK012": RuleCases(
        fires={"no reply of a simulated user": lost("no-reference")},
        silent={"none": subject(), "the endpoint": lost("provider"), "the environment's own": lost("raised")},
    ),
}
