"""Every sort of page that energyscope writes, from synthetic runs, by name; each is made when first asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from benchmark_builder import PRECISIONS, Bench
from cell_builder import build_swept
from generation_builder import Inference, build_inference
from laws_builder import ONE, SIX, build_laws, laws_document
from plan_builder import build_plan
from run_builder import Shape, build_run
from served_builder import build_served

from energyscope.reporting.run.page import write_report
from energyscope.runs.laws import write_laws
from energyscope.runs.store import Run, RunStore, load_run
from energyscope.serving.run import ServingRun
from energyscope.stages.laws import laws

# Names as a model, a file or a user might have them, each a known way to break a page.
ENDS_SCRIPT = "</script><script>window.hacked=1</script>"
ENDS_ATTRIBUTE = "\"'><img src=x onerror='window.hacked=1'>"
RIGHT_TO_LEFT = "\u202egnp.exe\u2066 \u05d0\u05d1\u05d2"
LONG = "x" * 300
EMOJI = "\U0001f525\U0001f469\u200d\U0001f4bb"
LINES = "one\ntwo\r\n\tthree"
RETURN = "one\rtwo"
HOSTILE = {
    "ends-script": ENDS_SCRIPT,
    "ends-attribute": ENDS_ATTRIBUTE,
    "right-to-left": RIGHT_TO_LEFT,
    "long": LONG,
    "emoji": EMOJI,
    "lines": LINES,
    "return": RETURN,
    "template": "{{ 7 * 7 }}{% raw %}${7*7}",
    "markup": "[bold]<b>&amp;&#60;</b>[/]",
}
REPORTS = (
    "fine",
    "one-layer",
    "modelled",
    "inference",
    "executions",
    "benchmark",
    "only-benchmark",
    "bare",
    "plan",
    "interrupted",
    "cell",
    "deep",
)
OTHERS = ("comparison", "several", "deep-comparison", "laws", "six-laws", "server", "servers")


def write_comparison(runs: list[Run], path: Path) -> Path:
    from energyscope.reporting.comparison.page import write_comparison as write

    return write(runs, path)


def write_laws_page(path: Path) -> Path:
    from energyscope.reporting.scaling.page import write_laws_page as write

    return write(path)


def write_serving_page(path: Path) -> Path:
    from energyscope.reporting.serving.page import write_serving_page as write

    return write(path)


def write_served_comparison(runs: list[ServingRun], path: Path) -> Path:
    from energyscope.reporting.serving.comparison import ComparedServers
    from energyscope.reporting.serving.comparison_page import write_served_comparison as write

    return write(ComparedServers.of(runs), path / "comparison.html")


class Gallery:
    """Pages by name: reports, comparisons, laws, and ``hostile-report-NAME`` and so on for the names above.

    Processes that run tests at the same time share the pages: each notes in ``shared`` which ones it has made.
    """

    def __init__(self, folder: Path, shared: Path) -> None:
        """Make pages below a folder of this process."""
        self.folder = folder
        self.shared = shared
        self.shared.mkdir(exist_ok=True)

    def __getitem__(self, name: str) -> Path:
        """Return the page's file."""
        note = self.shared / name
        if not note.exists():
            draft = self.folder / f"{name}.note"
            draft.write_text(str(self._made(name)), encoding="utf-8")
            draft.replace(note)
        return Path(note.read_text(encoding="utf-8"))

    def _made(self, name: str) -> Path:
        if name.startswith("hostile-"):
            _, what, which = name.split("-", 2)
            return _HOSTILE[what](self.folder / name, HOSTILE[which])
        return _PAGES[name](self.folder / name)


def _report(run: Run) -> Path:
    return write_report(run.path)


def _plain(shape: Shape | None = None) -> Callable[[Path], Path]:
    return lambda path: _report(build_run(path, shape or Shape(benchmark=Bench())))


def staged(path: Path, shape: Shape | None = None, **stages: dict[str, object]) -> Run:
    """Build a run of which some stages ended otherwise."""
    run = build_run(path, shape or Shape(impact=False))
    store = RunStore.open(run.path)
    store.document["stages"].update(stages)
    store.update()
    return load_run(run.path)


def _bare(path: Path) -> Path:
    """A run whose profile failed: nothing was measured, and it says so."""
    failed = {"state": "failed", "reason": "CUDA out of memory", "seconds": 3.0}
    unasked = {"state": "skipped", "reason": "not asked for", "seconds": 0}
    return _report(
        staged(path, Shape(profile=False, impact=False), profile=failed, ablate=unasked, correlate=unasked)
    )


def _interrupted(path: Path) -> Path:
    broken = {"state": "interrupted", "reason": "interrupted by SIGINT", "seconds": 30.0}
    failed = {"state": "failed", "reason": "data set has no labels", "seconds": 1.0}
    return _report(staged(path, None, profile=broken, ablate=failed))


def _comparison(path: Path, shapes: list[Shape]) -> Path:
    runs = [build_run(path / f"run-{at}", shape) for at, shape in enumerate(shapes)]
    return write_comparison(runs, path / "comparison.html")


def _cell(path: Path) -> Path:
    """A cell of a sweep, whose laws and those of a set beside it name it."""
    sweep = build_swept(path / "swept")
    laws([str(sweep.path)], name="together", root=path)
    return write_report(sweep.path / sweep.cells[1].name)


_PAGES: dict[str, Callable[[Path], Path]] = {
    "fine": _plain(),
    "one-layer": _plain(Shape(layers=1, granularity="coarse", impact=False)),
    "modelled": _plain(Shape(modelled=True, granularity="medium", unexplained_share=-0.05)),
    "inference": lambda path: _report(build_inference(path, Inference(layers=6, contexts=(1024,)))),
    "executions": lambda path: _report(
        build_inference(path, Inference(layers=4, contexts=(1024,), executions=("eager", "cuda-graph")))
    ),
    "benchmark": _plain(
        Shape(
            layers=1,
            impact=False,
            benchmark=Bench(
                precisions=tuple(PRECISIONS), metric="accuracy", batch_sizes=(1, 8), no_energy=("nf4",)
            ),
        )
    ),
    "only-benchmark": _plain(Shape(profile=False, impact=False, benchmark=Bench())),
    "bare": _bare,
    "plan": lambda path: _report(build_plan(path)),
    "interrupted": _interrupted,
    "cell": _cell,
    "deep": lambda path: _report(build_run(path, Shape(layers=80, reused=False))),
    "comparison": lambda path: _comparison(
        path, [Shape(benchmark=Bench()), Shape(scale=0.9, benchmark=Bench(seed=5))]
    ),
    "several": lambda path: _comparison(path, [Shape(layers=4 + at, scale=1 + at / 10) for at in range(4)]),
    "deep-comparison": lambda path: _comparison(
        path, [Shape(layers=80, reused=False, scale=1 + at) for at in range(2)]
    ),
    "laws": lambda path: write_laws_page(build_laws(path, ONE)),
    "six-laws": lambda path: write_laws_page(build_laws(path, SIX)),
    "server": lambda path: write_serving_page(build_served(path).path),
    "servers": lambda path: write_served_comparison(
        [build_served(path / name, users=users) for name, users in (("a", (1, 2, 4)), ("b", (1, 4, 8)))], path
    ),
}


def hostile_run(path: Path, name: str) -> Run:
    """A run in which every text that comes from outside is the hostile one."""
    return build_run(
        path,
        Shape(benchmark=Bench(), rename=lambda component: component.replace("mlp", name)),
        model={"name": name, "source": name},
        device={"name": name, "uuid": name},
        workload={"source": name, "evaluation": {"baseline": {"perplexity": 3.0}, "examples": 5, "source": name}},
        command=name,
        warnings=[name],
    )


def _hostile_comparison(path: Path, name: str) -> Path:
    return write_comparison([hostile_run(path / one, name) for one in ("a", "b")], path / "comparison.html")


def hostile_laws(path: Path, name: str) -> Path:
    path.mkdir(parents=True)
    document = json.dumps(laws_document(SIX[:2]))
    for known in ("llama-3.2-1b", "NVIDIA H200"):
        document = document.replace(known, json.dumps(name)[1:-1])
    write_laws(path, json.loads(document))
    return write_laws_page(path)


_HOSTILE: dict[str, Callable[[Path, str], Path]] = {
    "report": lambda path, name: _report(hostile_run(path, name)),
    "comparison": _hostile_comparison,
    "laws": hostile_laws,
}
