"""The page of a comparison: what stands on it, from which numbers, and that it escapes its names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from benchmark_builder import Bench
from generation_builder import Inference, build_inference
from page_gallery import HOSTILE, hostile_run
from run_builder import Eager, Shape, build_run

from energyscope.comparison.difference import compared
from energyscope.intervals import Interval
from energyscope.reasons import reason
from energyscope.reporting.comparison import differences
from energyscope.reporting.comparison.answer import ComparisonAnswer, chips, figures
from energyscope.reporting.comparison.page import comparison_page, default_path, write_comparison
from energyscope.reporting.comparison.sections import candidates
from energyscope.reporting.comparison.source import COMPARE, ComparedRuns
from energyscope.reporting.section import Figure
from energyscope.reporting.section import figures as figures_of
from energyscope.reporting.section import tables as tables_of
from energyscope.runs.method import REVISION
from energyscope.runs.store import Run, load_run

REPORTS = Path(__file__).parents[2] / "reports"
COMMITTED = [
    ("llama-3.2-1b-h200", "llama-3.2-1b-generation-h200"),
    ("distilbert-fp16-eager-h200", "distilbert-fp16-graph-h200"),
    ("distilbert-32x128-h200", "distilbert-precisions-h200"),
    ("tiny-gpt2-cpu", "tiny-gpt2-h200"),
    ("llama-3.2-1b-generation-h200", "llama-3.2-3b-generation-h200"),
    ("distilbert-h200", "distilbert-h200"),
    ("llama-3.2-1b-generation-h200", "llama-3.2-3b-generation-h200", "llama-3.2-1b-h200"),
]
KINDS = {
    "less": lambda path: [build_run(path / "a", Eager()), build_run(path / "b", Eager(scale=0.9))],
    "benchmarks": lambda path: [
        build_run(path / "a", Shape(profile=False, benchmark=Bench(precisions=("fp32", "fp16")))),
        build_run(path / "b", Shape(profile=False, benchmark=Bench(precisions=("fp32", "bf16"), seed=4))),
    ],
    "generations": lambda path: [
        build_inference(path / "a", Inference(layers=2, contexts=(1024,))),
        build_inference(path / "b", Inference(layers=3, contexts=(1024,), seed=2)),
    ],
    "modelled": lambda path: [build_run(path / name, Shape(modelled=True)) for name in "ab"],
    "three": lambda path: [build_run(path / name, Shape(layers=3 + at)) for at, name in enumerate("abc")],
    "nothing": lambda path: [build_run(path / "a"), build_run(path / "b", Shape(profile=False, impact=False))],
}


class _Dom(HTMLParser):
    """What tests ask of a page: its elements' attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def all(self, name: str) -> list[str]:
        """Return every value of an attribute."""
        return [str(attributes[name]) for _, attributes in self.elements if name in attributes]


def _page(source: ComparedRuns) -> str:
    return comparison_page(source, Path())


def _answer(runs: Sequence[Run]) -> ComparisonAnswer:
    return ComparisonAnswer(ComparedRuns.of(runs).others[0])


def _drawn(source: ComparedRuns) -> list[Figure]:
    return [*figures(source), *figures_of(COMPARE.shown(source))]


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_has_numbers_and_one_view_for_a_state(tmp_path: Path, kind: str) -> None:
    """GIVEN any runs, THEN names are unique, captions short, states different, and each view has its table."""
    drawn = _drawn(ComparedRuns.of(KINDS[kind](tmp_path)))
    assert len({figure.name for figure in drawn}) == len(drawn)
    for figure in drawn:
        states = [json.dumps(dict(view.when), sort_keys=True) for view in figure.views]
        assert len(set(states)) == len(states)
        assert all(view.table.rows for view in figure.views)
        assert len(figure.caption.split()) <= 20


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_anchors_lead_somewhere(tmp_path: Path, kind: str) -> None:
    """GIVEN any comparison, THEN no id stands twice and every link within the page has its place."""
    dom = _Dom(_page(ComparedRuns.of(KINDS[kind](tmp_path))))
    ids = dom.all("id")
    assert len(ids) == len(set(ids))
    assert {href[1:] for href in dom.all("href") if href.startswith("#")} <= set(ids)


def test_the_answer_is_the_ratio_of_the_whole_model(tmp_path: Path) -> None:
    """GIVEN a tenth less, THEN the sentence, a figure and the first bar of the whole model say so."""
    answer = _answer(KINDS["less"](tmp_path))
    assert answer.facts["lead"].verdict == "less"
    assert answer.facts["lead"].relative.value == pytest.approx(0.9)
    assert "10 %" in answer.sentence
    assert next(item.value for item in answer.stats if item.label == "Work ratio").startswith("0.9")
    assert answer.whole().rows[0]["ratio"].value == pytest.approx(0.9)


def test_sentences_are_short(tmp_path: Path) -> None:
    """GIVEN runs with short names, THEN a sentence has at most 18 words and two numbers beside those of names."""
    for kind, build in KINDS.items():
        for against in ComparedRuns.of(build(tmp_path / kind)).others:
            for sentence in (ComparisonAnswer(against).sentence, ComparisonAnswer(against).cause):
                assert len(sentence.split()) <= 20, sentence
                assert len(re.findall(r"\d+(?:\.\d+)?(?:x| %)", sentence)) <= 2, sentence


@pytest.mark.parametrize(
    ("shape", "sections", "obstacle", "verdict"),
    [
        (Eager(scale=0.9), {}, None, "less"),
        (Eager(scale=1.003), {}, None, "no-difference-shown"),
        (Eager(scale=0.5), {"device": {"uuid": "GPU-2"}}, "GPU board", "not-comparable"),
        (Eager(scale=0.5), {"device": {"name": "NVIDIA L4", "uuid": "GPU-2"}}, "device", "not-comparable"),
        (Eager(scale=0.5), {"workload": {"batch_size": 4}}, "batch size", "not-comparable"),
    ],
)
def test_a_sentence_says_what_is_in_the_way(
    tmp_path: Path, shape: Shape, sections: dict[str, Any], obstacle: str | None, verdict: str
) -> None:
    """GIVEN an obstacle, THEN the answer names it, what another device implies is left out, and trust is less."""
    answer = _answer([build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", shape, **sections)])
    assert answer.facts["lead"].verdict == verdict
    assert answer.facts["obstacles"] == ([] if obstacle is None else [obstacle])
    assert obstacle is None or obstacle in answer.sentence
    assert answer.trust.startswith("Yes") is (obstacle is None)


@pytest.mark.parametrize(("execution", "cause"), [("eager", "host"), ("cuda-graph", "several percent")])
def test_another_board_alone_is_a_cause_by_execution(tmp_path: Path, execution: str, cause: str) -> None:
    """GIVEN another board, THEN in eager execution its host is named, and in CUDA graphs how far boards differ."""
    shape = Shape(execution=execution)
    answer = _answer(
        [build_run(tmp_path / "a", shape), build_run(tmp_path / "b", shape, device={"uuid": "GPU-2"})]
    )
    assert answer.cause.startswith("Only the GPU board differs: ")
    assert cause in answer.cause


@pytest.mark.parametrize(
    ("executions", "other"),
    [(("eager", "eager"), {}), (("eager", "eager"), {"device": {"uuid": "GPU-2"}}), (("eager", "cuda-graph"), {})],
)
def test_it_says_that_eager_totals_are_not_comparable_and_why(
    tmp_path: Path, executions: tuple[str, str], other: dict[str, Any]
) -> None:
    """GIVEN an eager run on one board or two, THEN sentence and figure are of work, and the page says why."""
    shapes = [
        Eager(execution=execution, scale=scale) for execution, scale in zip(executions, (1, 0.9), strict=True)
    ]
    runs = [
        build_run(tmp_path / "a", shapes[0], method=REVISION),
        build_run(tmp_path / "b", shapes[1], method=REVISION, **other),
    ]
    source = ComparedRuns.of(runs)
    answer = ComparisonAnswer(source.others[0])
    assert "10 % less work (dynamic energy)" in answer.sentence
    assert answer.stats[0].label == "Work per forward pass"
    why = "eager totals are not comparable: their idle energy is idle power x the host's time"
    assert why in answer.trust
    assert why.replace("'", "&#39;") in _page(source)
    assert {row["verdict"] for row in answer.whole().rows if row["name"].startswith("Energy")} <= {
        "eager total", "not comparable",
    }  # fmt: skip


def test_eager_totals_without_work_are_shown_as_measured(tmp_path: Path) -> None:
    """GIVEN eager runs whose idle power is unknown, THEN the total is given as measured, and as not comparable."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.9))]
    for run in runs:
        assert run.energy is not None
        work = [name for name in run.energy.columns if name.startswith(("dynamic_", "static_"))]
        run.energy[work] = None
    answer = _answer(runs)
    assert answer.facts["lead"].name == "energy per forward pass"
    assert answer.sentence.startswith("As measured, ")
    assert "10 % less energy" in answer.sentence
    assert "not comparable (eager totals)" in answer.sentence
    assert answer.trust.startswith("No: eager totals are not comparable")


def test_shares_of_work_stand_beside_the_blocks(tmp_path: Path) -> None:
    """GIVEN eager runs on two boards, THEN each measured block has both shares and the shares' own verdict."""
    answer = _answer(
        [build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(), device={"uuid": "GPU-2"})]
    )
    rows = {row["kind"]: row for row in answer.parts().rows}
    assert (rows["mlp"]["verdict"], rows["mlp"]["share_verdict"]) == ("other board", "not shown")
    assert sum(row["share"].value for row in rows.values()) == pytest.approx(1.0, abs=1e-6)
    assert rows["overhead"]["share_verdict"] == "too noisy"
    graphs = [build_run(tmp_path / name, Eager(execution="cuda-graph")) for name in "cd"]
    assert "share" not in [column.key for column in _answer(graphs).parts().columns]


def test_modelled_joules_say_so(tmp_path: Path) -> None:
    """GIVEN modelled runs, THEN the chip, the sentence and the figures name them so, and no power is compared."""
    source = ComparedRuns.of(KINDS["modelled"](tmp_path))
    answer = ComparisonAnswer(source.others[0])
    assert "MODELLED" in [chip.text for chip in chips(source)]
    assert "MODELLED" in answer.sentence
    assert answer.stats[0].label.startswith("Modelled")
    assert "Power ratio" not in [item.label for item in answer.stats]


def test_what_differs_is_marked_and_names_the_runs(tmp_path: Path) -> None:
    """GIVEN runs that differ in execution alone, THEN they are called so, and its chip is marked."""
    runs = [build_run(tmp_path / execution, Shape(execution=execution)) for execution in ("eager", "cuda-graph")]
    source = ComparedRuns.of(runs)
    assert source.names == ["eager", "CUDA graph"]
    assert [chip.text for chip in chips(source) if chip.tone == "differs"] == ["eager \u2192 CUDA graph"]
    both = [
        build_run(tmp_path / "c"),
        build_run(tmp_path / "d", Shape(execution="cuda-graph"), model={"name": "m"}),
    ]
    assert ComparedRuns.of(both).names == ["c", "d"]


def test_blocks_are_compared_as_measured_and_the_largest_change_stands_first(tmp_path: Path) -> None:
    """GIVEN twice the layers, THEN blocks of layers take twice, the head the same; by the size of change."""
    runs = [build_run(tmp_path / "a", Eager()), build_run(tmp_path / "b", Eager(layers=8))]
    against = ComparedRuns.of(runs).others[0]
    blocks = {item.kind: item for item in against.workloads[0].blocks}
    assert blocks["mlp"].relative is not None
    assert blocks["mlp"].relative.value == pytest.approx(2.0)
    assert blocks["mlp"].verdict == "more"
    assert blocks["lm_head"].verdict == "no-difference-shown"
    sizes = [abs(item.change.value) for item in blocks.values() if item.change]
    assert sizes == sorted(sizes, reverse=True)
    rows = {row["kind"]: row for row in ComparisonAnswer(against).parts().rows}
    assert (rows["mlp"]["noisy"], rows["lm_head"]["noisy"]) == (False, True)


def test_shares_are_each_runs_own(tmp_path: Path) -> None:
    """GIVEN a run of half the energy, THEN shares are the same, and with overhead and the rest they are 1."""
    source = ComparedRuns.of([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=0.5))])
    (figure,) = [item for item in _drawn(source) if item.name == "energy-shares"]
    for name in source.names:
        shares = [row["share"].value for row in figure.views[0].table.rows if row["run"] == name]
        assert sum(shares) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        ((Interval(10, 9.9, 10.1), Interval(5, 4.9, 5.1)), {}, "less"),
        ((Interval(10, 9.9, 10.1), Interval(10, 9.9, 10.1)), {}, "not shown"),
        ((Interval(10, 9.9, 10.1), Interval(5, 4.9, 5.1)), {"obstacles": ("GPU board",)}, "other board"),
        ((Interval(10, 9.9, 10.1), Interval(5, 4.9, 5.1)), {"obstacles": ("driver",)}, "not comparable"),
        ((Interval(10, 9.9, 10.1), Interval(5, 4.9, 5.1)), {"own": reason("eager-total")}, "eager total"),
        ((Interval(10, 9.9, 10.1), Interval(5, 4.9, 5.1)), {"invalid": (True, False)}, "too noisy"),
        ((Interval(10), Interval(5)), {}, "no interval"),
        ((Interval(10), None), {}, "in one run only"),
        ((Interval(10), Interval(5)), {"obstacles": ("a",), "invalid": (True, True)}, "not comparable"),
    ],
)
def test_a_verdict_says_why_there_is_none(values: Any, options: dict[str, Any], words: str) -> None:
    """GIVEN a difference, THEN its row has the verdict, or the reason of its own where there is none."""
    row = differences.row(compared("energy", "mJ", values, **options))
    assert row["verdict"] == words
    assert row["noisy"] is (words not in {"less", "more"})


def test_colours_know_what_is_better(tmp_path: Path) -> None:
    """GIVEN more tokens for a joule and more energy, THEN one is better and one worse; power is neither."""
    less, more = Interval(5, 4.9, 5.1), Interval(10, 9.9, 10.1)
    judged = {
        name: differences.row(compared(name, "mJ", (less, more)))["judged"]
        for name in ("energy per inference", "tokens per joule", "mean power")
    }
    assert len(set(judged.values())) == 3


def test_benchmarks_alone_have_an_answer(tmp_path: Path) -> None:
    """GIVEN two benchmarks, THEN the cheapest common precision leads, and what only one has is named."""
    source = ComparedRuns.of(KINDS["benchmarks"](tmp_path))
    against = source.others[0]
    assert against.cell is not None
    assert against.cell.precision == "fp32"
    table = tables_of(COMPARE.shown(source))["precisions-1"]
    assert [row["name"] for row in table.rows] == ["FP32"]
    assert len(table.notes) == 2


def test_points_that_none_beats_are_the_front(tmp_path: Path) -> None:
    """GIVEN benchmarks of two runs on one board, THEN no point of the front has less energy and a better score."""
    runs = [
        build_run(tmp_path / name, Shape(profile=False, benchmark=Bench(metric="accuracy", seed=seed)))
        for name, seed in (("a", 1), ("b", 2))
    ]
    rows = candidates(ComparedRuns.of(runs), "accuracy")
    known = [row for row in rows if not row["noisy"]]
    assert {row["run"] for row in rows} == {"a", "b"}
    assert any(row["best"] for row in rows)
    for row in known:
        better = [item for item in known if item["energy"].value < row["energy"].value
                  and item["score"].value > row["score"].value]  # fmt: skip
        assert not (row["best"] and better)


def test_runs_that_were_evaluated_on_other_data_are_no_candidates(tmp_path: Path) -> None:
    """GIVEN another evaluation set, THEN the other run stands on no plane with the baseline."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", workload={"evaluation": {"source": "else"}})]
    assert {row["run"] for row in candidates(ComparedRuns.of(runs), "perplexity")} <= {"a"}


def test_generations_have_their_moments_and_rates(tmp_path: Path) -> None:
    """GIVEN two generations, THEN each workload is a view of the first charts, and the rates are one table."""
    source = ComparedRuns.of(KINDS["generations"](tmp_path))
    against = source.others[0]
    assert len(against.workloads) > 1
    for figure in figures(source):
        assert [view.when[against.dimension] for view in figure.views] == [
            str(place) for place in range(len(against.workloads))
        ]
    rows = tables_of(COMPARE.shown(source))["generation-1"].rows
    assert rows[0]["name"] == "Work per generated token"
    assert against.workloads[0].sides[0].phase == "decode"


def test_several_others_are_switched_between(tmp_path: Path) -> None:
    """GIVEN three runs, THEN the others are values of one switch, the first shown; one chart has all runs."""
    source = ComparedRuns.of(KINDS["three"](tmp_path))
    dom = _Dom(_page(source))
    shown = [attributes for _, attributes in dom.elements if attributes.get("data-when") == "other"]
    assert {attributes["data-is"] for attributes in shown} == {"1", "2"}
    assert all(("hidden" in attributes) is (attributes["data-is"] != "1") for attributes in shown)
    assert "other" in dom.all("data-dimension")
    (figure,) = [item for item in _drawn(source) if item.name == "runs-work"]
    assert [row["run"] for row in figure.views[0].table.rows] == ["a", "b", "c"]
    assert [view.when["per"] for view in figure.views] == ["token", "parameter", "FLOP"]


def test_layers_are_drawn_by_depth_only_where_they_differ(tmp_path: Path) -> None:
    """GIVEN models of other depth, THEN layers are drawn by depth only where they differ."""

    def made(name: str, layers: int, slope: float) -> Run:
        run = build_run(tmp_path / name, Shape(layers=layers, granularity="medium"))
        assert run.energy is not None
        table = run.energy.copy()
        chosen = table["level"] == "layer"
        for column, value in (("energy_mj", 1.0), ("energy_ci_low_mj", 0.98), ("energy_ci_high_mj", 1.02)):
            table.loc[chosen, column] = 10 * value * (1 + slope * table.loc[chosen, "layer"].astype(float))
        return replace(run, energy=table)

    first, equal, uneven = made("a", 4, 0.0), made("b", 8, 0.0), made("c", 8, 1.0)
    assert "layers-depth" not in [item.name for item in _drawn(ComparedRuns.of([first, equal]))]
    (figure,) = [item for item in _drawn(ComparedRuns.of([first, uneven])) if item.name == "layers-depth"]
    depths = [row["depth"] for row in figure.views[0].table.rows if row["run"] == "a"]
    assert depths == [0.125, 0.375, 0.625, 0.875]


def test_nothing_in_common_is_said(tmp_path: Path) -> None:
    """GIVEN a run without results, THEN the page says so, without figures, and still shows the conditions."""
    source = ComparedRuns.of(KINDS["nothing"](tmp_path))
    assert ComparisonAnswer(source.others[0]).facts["lead"] is None
    assert figures(source) == []
    assert [item.section.name for item in COMPARE.shown(source)] == ["conditions", "method"]
    assert 'class="answer"' in _page(source)


@pytest.mark.parametrize(
    ("scale", "number"), [(0.9, "10 %"), (1.04, "4.0 %"), (0.4, "0.40x"), (3.0, "3.0x"), (1.9, "90 %")]
)
def test_a_change_is_in_percent_up_to_a_factor_of_two(tmp_path: Path, scale: float, number: str) -> None:
    """GIVEN a ratio, THEN the sentence has it so that it can be told from none: in percent, or as a factor."""
    assert number in _answer([build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(scale=scale))]).sentence


def test_other_stages_are_named_where_nothing_can_be_compared(tmp_path: Path) -> None:
    """GIVEN a profile and a benchmark, THEN both stages are named and nothing is said of trust."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", Shape(profile=False, benchmark=Bench()))]
    answer = _answer(runs)
    assert answer.facts["stages"] == [["profile"], ["benchmark"]]
    assert all(stage in answer.cause for stage in ("profile", "benchmark"))
    assert answer.trust == ""
    assert 'class="trust"' not in _page(ComparedRuns.of(runs))


def test_gpus_are_counted(tmp_path: Path) -> None:
    """GIVEN a model on two GPUs, THEN the chip and the cause say how many each run had."""
    spread = [{"place": f"cuda:{at}", "uuid": f"GPU-{at}"} for at in range(2)]
    runs = [
        build_run(tmp_path / "a", device={"type": "cuda", "name": "H200", "spread": spread}),
        build_run(tmp_path / "b", device={"type": "cuda", "name": "H200"}),
    ]
    source = ComparedRuns.of(runs)
    assert chips(source)[0].text == "2 x H200 \u2192 H200"
    assert "2 GPUs" in ComparisonAnswer(source.others[0]).cause


def test_conditions_are_told_apart_by_whether_they_differ(tmp_path: Path) -> None:
    """GIVEN another driver, THEN it stands among what differs, and the board among what is the same."""
    runs = [build_run(tmp_path / "a"), build_run(tmp_path / "b", environment={"driver": "590.1"})]
    tables = tables_of(COMPARE.shown(ComparedRuns.of(runs)))
    assert "Driver" in [row["name"] for row in tables["differ"].rows]
    assert "GPU board" in [row["name"] for row in tables["same"].rows]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(tmp_path: Path, name: str) -> None:
    """GIVEN names that would end an element or an attribute, THEN no element is made of them."""
    runs = [hostile_run(tmp_path / run, HOSTILE[name]) for run in "ab"]
    tags = [(tag, attributes) for tag, attributes in _Dom(_page(ComparedRuns.of(runs))).elements]
    assert not any("onerror" in attributes or tag == "img" for tag, attributes in tags)
    assert sum(tag == "script" for tag, _ in tags) == 3


def test_a_page_links_to_the_reports_of_its_runs(tmp_path: Path) -> None:
    """GIVEN a run with a page of its own, THEN the comparison links to it from where it stands; else not."""
    first, second = KINDS["less"](tmp_path / "with # sign")
    (first.path / "report.html").write_text("", encoding="utf-8")
    file = write_comparison([first, second], tmp_path / "comparisons" / "page.html")
    links = [href for href in _Dom(file.read_text(encoding="utf-8")).all("href") if not href.startswith("#")]
    assert links == ["../with%20%23%20sign/a/report.html"]


@pytest.mark.parametrize(
    ("names", "file"),
    [
        (["a", "b"], "a-vs-b.html"),
        (["one/fp32", "two/fp32"], "one-fp32-vs-two-fp32.html"),
        (["..", "\x1b[2J"], "run-vs-2J.html"),
    ],
)
def test_the_file_is_named_after_the_runs(names: list[str], file: str) -> None:
    """GIVEN any names, THEN the file's name is plain, and of bounded length."""
    assert default_path(names, Path("runs")) == Path("runs/comparisons") / file
    assert len(default_path(["x" * 300, "y"], Path("runs")).name) < 150


@pytest.mark.parametrize("names", COMMITTED, ids="-vs-".join)
def test_committed_runs_have_a_page(names: tuple[str, ...]) -> None:
    """GIVEN runs as they were measured, old ones too, THEN their page has an answer and its charts have views."""
    source = ComparedRuns.of([load_run(REPORTS / name) for name in names])
    html = _page(source)
    assert html.count('class="answer"') == len(names) - 1
    assert all(ComparisonAnswer(against).facts["lead"] for against in source.others)
    assert len(figures(source)) == 2
