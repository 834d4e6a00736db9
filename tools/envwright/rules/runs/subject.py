"""The input of the rules of training runs: a compiled run with the known data of its environments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from envwright.facts.observed import Place
from envwright.rules.engine import Found, Gate
from envwright.rules.evidence import Evidence
from envwright.rules.runs.trainer import RefusalKind, RefusedSetting, TrainerLimits, TrainerSettings
from envwright.statistics.groups import distinct, predicted_live
from envwright.statistics.summary import mean

if TYPE_CHECKING:
    from envwright_worker.splits import Split

    from envwright.repository.package import Generation
    from envwright.repository.run import RunSpec


@dataclass(frozen=True)
class Recorded:
    """The rewards of an environment's last recording."""

    speaker: str
    scripted: bool
    rewards: Sequence[Sequence[float]]
    """The recorded rewards, task by task."""
    mean_share: float | None
    """The mean as a share of the declared range."""
    date: str = ""
    digest: str = ""
    """Digest of the recorded package."""
    current: bool = True
    """Whether the package still is the recorded one."""
    mean: float | None = None
    interval: tuple[float, float] | None = None
    """The interval of the mean reward, with the recording's confidence."""
    split: Split = "train"
    tokens: float | None = None
    """Mean sampled tokens of a rollout, as the provider counted them; `None` if no row has them."""
    tasks: Sequence[str] = ()
    """The tasks of `rewards`, in the same order."""
    prompt_tokens: float | None = None
    """Mean prompt tokens of a rollout over all turns; `None` if no row has them."""
    turns: float | None = None
    """Mean replies of a rollout; `None` if no row has its conversation."""
    scripted_judge: bool = False
    """Whether a scripted judge judged a model's rollouts."""

    @property
    def binary(self) -> bool:
        """Whether at most two different rewards occur."""
        return len(distinct([reward for group in self.rewards for reward in group])) <= 2

    def zero_variance_share(self, size: int) -> float | None:
        """Share of groups of this size without variance, predicted from the rates of the tasks."""
        groups = [group for group in self.rewards if len(group) > 1]
        return 1 - mean([predicted_live(group, size) for group in groups]) if groups else None


TOO_EASY = 0.8


def difficulty(recorded: Recorded, size: int) -> str:
    """The difficulty of the environment for a recorded model, in groups of `size`."""
    share = recorded.mean_share
    if share is None:
        return "the recording has no reward"
    live = recorded.zero_variance_share(size)
    groups = "" if live is None else f"; {live:.0%} of groups of {size} would have no variance"
    if share <= 0:
        return f"too hard for it: it earns nothing{groups}"
    if share > TOO_EASY:
        return f"nearly solved by it: {share:.2f} of the range{groups}"
    return f"between the extremes for it: {share:.2f} of the range{groups}"


@dataclass(frozen=True)
class TrainedOn:
    """One environment of a run."""

    label: str
    """Its name in metrics."""
    id: str
    generation: Generation | None = "v1"
    requires: tuple[str, ...] | None = ()
    """The package's requirement on verifiers; `None` if its code is not in this repository."""
    pinned: str | None = None
    external: bool = False
    version: str = ""
    hub: str = ""
    """`owner/name` on the Hub."""
    on_hub: str | None = None
    """The latest version on the Hub; `None` if it was not read."""
    secrets: tuple[str, ...] = ()
    judge_key: str = ""
    """The key that its judge needs: its variable, or a description if no declaration names it."""
    multi_turn: bool = False
    agents: tuple[str, ...] | None = ("agent",)
    """The agents of its EnvConfig; `None` if they are not known."""
    settings: tuple[str, ...] | None = None
    """The keys of its taskset, or the arguments of load_environment (v0); `None` if they are not known."""
    recorded: Recorded | None = None
    key: str = "environments"
    """The place in the run that names it."""


@dataclass(frozen=True)
class EvaluatedOn:
    """One environment of a run's evaluation."""

    id: str
    on_other_tasks: bool
    """Whether its tasks are others than those that the run trains on."""
    key: str
    given: tuple[str, ...] = ()
    """The keys of its taskset that are set."""
    settings: tuple[str, ...] | None = None
    """Its known keys, as in `TrainedOn`."""


@dataclass(frozen=True)
class RunSubject:
    """A declared run as input of its rules."""

    gates: ClassVar[tuple[Gate, ...]] = ("run",)

    spec: RunSpec
    trainer: TrainerLimits
    trained_on: tuple[TrainedOn, ...] = ()
    evaluated_on: tuple[EvaluatedOn, ...] = ()
    settings: TrainerSettings = field(default_factory=TrainerSettings)
    """Settings of the compiled configuration, overrides included; empty without one."""
    refusals: tuple[RefusedSetting, ...] = ()
    """The settings of the compiled configuration that the trainer refuses."""
    broken: str = ""
    """Why it could not be compiled."""
    left_out: tuple[str, ...] = ()
    """Declared settings without a place in the configuration."""
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Path of an override of another kind than the value that it replaces → the former kind and the new one."""
    trainers: tuple[TrainerLimits, ...] = ()
    """All trainers, for alternatives."""

    @property
    def ignore(self) -> Mapping[str, str]:
        """Rule id → the reason why it is ignored for this run."""
        return self.spec.ignore

    def refused(self, kind: RefusalKind) -> Iterator[Found]:
        """A finding for every refusal of one kind."""
        for each in self.refusals:
            if each.kind == kind:
                yield self.found(each.key, each.message, each.fix, **each.evidence)

    def place(self, key: str = "") -> Place:
        """The place in the registry."""
        return Place(self.spec.file, self.spec.line(key))

    def found(self, key: str, message: str, fix: str | None = None, **evidence: Any) -> Found:
        """A finding about one key of the run."""
        return Found(
            f"{self.spec.name}: {message}",
            Evidence(details={"run": self.spec.name, "key": key, **evidence}),
            self.place(key),
            fix,
        )
