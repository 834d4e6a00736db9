"""Load the environment: import verifiers, the package, and make the policies."""

from __future__ import annotations

import platform
import time
from importlib.metadata import version

from ..adapter import Settings
from ..channel import Request
from ..confinement import NetworkGuard
from ..failures import Sources
from ..judges import ScriptedJudge
from ..oracle import AuthorsOracle, DerivedOracle
from ..policies import AnswerSettings, Policies
from ..session import Session


def answer(session: Session, request: Request) -> None:
    settings = session.settings = Settings.parse(request["settings"])
    session.sources = Sources(settings.overlay, settings.package)
    session.guard = session.watching or NetworkGuard(session.sources, settings.allow_network)
    if session.watching is None:
        session.guard.install(session.loop)
    else:
        session.guard.take_over(session.sources, session.loop)
    started = time.perf_counter()
    if settings.generation == "v1":
        import verifiers.v1

        _refuse_other_v1()
        imported = time.perf_counter()
        from ..adapter_v1 import AdapterV1

        session.adapter = AdapterV1(settings, session.sources)
    else:
        import verifiers

        verifiers.Environment  # noqa: B018 - 0.3 loads its first generation when it is touched
        imported = time.perf_counter()
        from ..adapter_v0 import AdapterV0

        session.adapter = AdapterV0(settings, session.sources)
    loaded = time.perf_counter()
    session.policies = _make_policies(session, settings)
    session.judge = ScriptedJudge(session)
    session.judge.install()
    session.channel.item(
        "description",
        {
            **session.adapter.describe(),
            "verifiers": version("verifiers"),
            "python": platform.python_version(),
            "import_seconds": imported - started,
            "load_seconds": loaded - imported,
            "datasets": [],
        },
    )


def _refuse_other_v1() -> None:
    """0.1 and 0.2 had a `verifiers.v1` too, of other shapes."""
    import verifiers.v1

    if not hasattr(verifiers.v1, "environment_class"):
        here = version("verifiers")
        raise ImportError(f"v1 environments need verifiers 0.3.1 or later, and the lock holds {here}: raise the bound")


def _make_policies(session: Session, settings: Settings) -> Policies:
    path = settings.package / "tests" / "oracle.py"
    oracle = AuthorsOracle(path) if path.is_file() else DerivedOracle(session.adapter.parser_tags())
    return Policies(oracle, AnswerSettings(settings.answer_type, settings.tolerance, settings.case_sensitive))
