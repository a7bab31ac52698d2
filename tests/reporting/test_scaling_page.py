"""The page of laws: what it says first, where each number of laws.json stands, and that names only look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laws_builder import ONE, SIX, SIZES, Swept, build_laws, laws_document
from page_gallery import HOSTILE

from energyscope.errors import RunError
from energyscope.reporting.scaling import page  # noqa: F401 - registers the sections
from energyscope.reporting.scaling.answer import TOP, LawsAnswer
from energyscope.reporting.scaling.laws import LAWS, WHOLE, Laws, grows, line_of, shape_of, whole_of
from energyscope.reporting.scaling.page import laws_page, write_laws_page
from energyscope.reporting.scaling.trust import trust_facts
from energyscope.reporting.section import figures, tables
from energyscope.runs.laws import load_laws, write_laws

COMMITTED = sorted((Path(__file__).parents[2] / "reports" / "scaling-h200").glob("*/laws.json"))
SCHEMA_1 = (
    Path(__file__).parent / "schema-1" / "laws.json"
)  # with reasons as free text, from before executed FLOPs
GRAPHS = (Swept(batch_sizes=(1,)), Swept(execution="cuda-graph", batch_sizes=(1,)))
DECODE = (Swept(phase="decode", batch_sizes=(1, 4, 16, 64), lengths=(1024,)),)
THREE = tuple(Swept(size, batch_sizes=(1,), lengths=(128, 512)) for size in SIZES)
SINGLE = (Swept(batch_sizes=(1,), lengths=(128,)),)
LIMITS = tuple(Swept(batch_sizes=(1,), lengths=(128, 512), limit=limit) for limit in ("", "500 W", "300 W"))
CASES = {"limits": LIMITS, "law": ONE, "contrast": GRAPHS, "efficiency": DECODE, "sizes": THREE}


def laws_of(groups: tuple[Swept, ...], **changes: Any) -> Laws:
    return Laws(json.loads(json.dumps(laws_document(groups, **changes))), Path("nowhere"))


@pytest.fixture(scope="module")
def made() -> dict[str, Laws]:
    return {name: laws_of(groups) for name, groups in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_what_was_varied_decides_what_is_said_first(made: dict[str, Laws], case: str) -> None:
    """GIVEN sizes, settings, batches or lengths, THEN the first screen is of those, with a chart or two."""
    laws = made[case]
    assert laws.case == case
    drawn = {figure.name for figure in figures(LAWS.shown(laws))}
    assert [name for name in TOP[case] if name in drawn]
    answer = LawsAnswer(laws)
    assert 2 <= len(answer.stats) <= 5
    for text in (answer.sentence, answer.follows, answer.trust):
        assert text
        assert "None" not in text
    assert len(answer.sentence.split()) <= 20


def test_the_law_is_the_one_of_the_document(made: dict[str, Laws]) -> None:
    """GIVEN one group, THEN E0 and k, and where they are equal, are the document's."""
    facts = LawsAnswer(made["law"]).facts
    law = made["law"].document["groups"][0]["subjects"][0]["two_term"]
    assert facts["fixed"].value == law["fixed_mj"]["value"]
    assert facts["slope"].value == law["marginal_pj_per_flop"]["value"]
    assert facts["even"] * facts["slope"].value * 1e-9 == pytest.approx(facts["fixed"].value)


def test_a_contrast_is_of_the_whole_model_from_the_least_work_to_the_most(made: dict[str, Laws]) -> None:
    """GIVEN two executions, THEN the sentence has the ratios of the whole model, by work."""
    facts, document = LawsAnswer(made["contrast"]).facts, made["contrast"].document
    wholes = [item for item in document["contrasts"] if item["subject"] == WHOLE]
    by_work = sorted(wholes, key=lambda item: item["tokens"])
    assert [item.value for _, item in facts["cells"]] == [item["ratio"]["value"] for item in by_work]
    assert facts["less"] + facts["more"] <= len(by_work)


def test_batches_are_told_in_tokens_per_joule(made: dict[str, Laws]) -> None:
    """GIVEN decode steps of several batches, THEN the sentence goes from the smallest to the largest."""
    facts, (line,) = LawsAnswer(made["efficiency"]).facts, made["efficiency"].document["efficiency"]
    assert facts["batches"] == [1, 64]
    assert [item.value for item in facts["tokens"]] == [
        line["rows"][at]["tokens_per_j"]["value"] for at in (0, -1)
    ]
    assert facts["gain"].value == pytest.approx(facts["tokens"][1].value / facts["tokens"][0].value)


def test_the_exponent_is_the_one_known_best(made: dict[str, Laws]) -> None:
    """GIVEN sizes at two shapes, THEN the exponent with the narrower interval is told, with the models' ends."""
    facts, sizes = LawsAnswer(made["sizes"]).facts, made["sizes"].document["sizes"]
    widths = {item["exponent"]["value"]: item["exponent"]["high"] - item["exponent"]["low"] for item in sizes}
    assert facts["exponent"].value == min(widths, key=lambda value: widths[value])
    assert facts["models"] == [SIZES[0].name, SIZES[-1].name]
    assert facts["twice"] == pytest.approx(2 ** facts["exponent"].value)


def test_one_cell_has_no_law_and_no_number() -> None:
    """GIVEN one cell, THEN the page says that there is no law, and no figure of the answer is made up."""
    answer = LawsAnswer(laws_of(SINGLE))
    assert answer.facts["slope"] is None
    assert answer.stats == []
    assert laws_page(laws_of(SINGLE))


def test_a_slope_that_includes_0_is_no_growth() -> None:
    """GIVEN a k that is not significantly different from zero, THEN no line is drawn and the facts say so."""
    document = json.loads(json.dumps(laws_document(ONE)))
    law = document["groups"][0]["subjects"][0]["two_term"]
    law["marginal_pj_per_flop"] = {"value": 0.1, "low": -1.0, "high": 1.2}
    laws = Laws(document, Path("nowhere"))
    assert not grows(line_of(whole_of(laws.groups[0])))
    assert not LawsAnswer(laws).facts["grows"]
    remarks = tables(LAWS.shown(laws))["remarks-0"].rows
    assert any(row["remark"].code == "k-holds-zero" for row in remarks if hasattr(row["remark"], "code"))


@pytest.mark.parametrize("groups", [ONE, SIX], ids=["one", "six"])
def test_everything_of_the_document_is_in_a_table(groups: tuple[Swept, ...]) -> None:
    """GIVEN groups of cells, THEN every subject, point, step, ratio, held-out error and cell has its row."""
    laws = laws_of(groups)
    by_name = tables(LAWS.shown(laws))
    for at, group in enumerate(laws.groups):
        subjects = group["subjects"]
        assert len(by_name[f"laws-{at}"].rows) == len(subjects)
        assert len(by_name[f"points-{at}"].rows) == sum(len(item["points"]) for item in subjects)
        for name in ("quotients", "held_out"):
            rows = sum(len(item[name]) for item in subjects)
            assert rows == len(by_name[f"{name}-{at}"].rows if rows else [])
        assert len(by_name[f"ratios-{at}"].rows) == sum(1 + len(item["at"]) for item in group["ratios"])
        assert [row.get("static_w") for row in by_name[f"roofline-{at}"].rows] == [
            item["roofline"].get("static_w") for item in subjects
        ]
    assert len(by_name["cells"].rows) == len(laws.document["sources"])
    left_out = laws.document["sizes_held_out"]
    assert len(left_out) == (len(by_name["left-out"].rows) if left_out else 0)
    lines = sum(len(laws.efficiency(group)) for group in laws.groups)
    assert lines == sum(len(table.rows) for name, table in by_name.items() if name.startswith("gains-"))


def test_a_switch_leads_to_every_group_and_labels_are_short() -> None:
    """GIVEN six groups, THEN charts by kind have a view for each, and labels tell what differs and no more."""
    laws = laws_of(SIX)
    assert len(set(laws.labels)) == len(laws.groups) == 6
    assert not any("NVIDIA" in label or "random" in label for label in laws.labels)
    (by_kind,) = [item for item in figures(LAWS.shown(laws)) if item.name == "energy-by-kind"]
    assert [view.when for view in by_kind.views] == [{"group": str(at)} for at in range(6)]
    assert laws.distinct_labels(laws.groups[:1]) != [""]


def test_shapes_tell_groups_apart_that_nothing_else_does() -> None:
    """GIVEN two boards of one setting, THEN their shapes name them, and boards where those are alike too."""
    apart = laws_of((Swept(lengths=(32, 64, 128)), Swept(lengths=(512, 1024, 2048), board="GPU-2")))
    assert ["board" in label for label in apart.labels] == [False, False]
    alike = laws_of((Swept(), Swept(board="GPU-2")))
    assert sorted(alike.labels) == ["board 1", "board 2"]


def test_a_noisy_whole_is_hollow() -> None:
    """GIVEN a cell that is graded invalid, THEN its whole model is noisy in the table, and its parts are not."""
    document = json.loads(json.dumps(laws_document(ONE)))
    for source in document["sources"]:
        source["quality"] = "invalid" if source["tokens"] == 32 else "B"
    laws = Laws(document, Path("nowhere"))
    weak = {(row["kind"], row["noisy"], row["tokens"] == 32) for row in tables(LAWS.shown(laws))["points-0"].rows}
    assert {kind for kind, noisy, _ in weak if noisy} == {WHOLE}
    assert all(small for _, noisy, small in weak if noisy)
    assert trust_facts(laws)["weak"] == sum(shape_of(item)[1] == 32 for item in document["sources"])


def test_trust_follows_held_out_errors_and_noise(made: dict[str, Laws]) -> None:
    """GIVEN errors of cells left out, THEN the verdict is of the worst median; MODELLED joules say so."""
    facts = trust_facts(made["law"])
    errors = [way["whole"] for way in made["law"].document["groups"][0]["held_out"]["ways"]]
    assert facts["cells"]["high"] == max(item["median"] for item in errors)
    assert facts["cells"]["worst"] == max(item["worst"] for item in errors)
    bad = json.loads(json.dumps(made["law"].document))
    bad["groups"][0]["held_out"]["ways"][0]["whole"]["median"] = 0.4
    assert trust_facts(Laws(bad, Path("nowhere")))["level"] == "partly"
    modelled = laws_of((Swept(modelled=True),))
    assert trust_facts(modelled)["modelled"]
    assert "MODELLED" in LawsAnswer(modelled).sentence
    assert "MODELLED" in modelled.energy
    assert not any(row.get("power") for item in figures(LAWS.shown(modelled)) for row in item.views[0].table.rows)


@pytest.mark.parametrize("file", [*COMMITTED, SCHEMA_1], ids=lambda file: file.parent.name)
def test_committed_documents_are_drawn(file: Path) -> None:
    """GIVEN measured laws, also with reasons as free text, THEN their page has their numbers."""
    laws = Laws.load(file.parent)
    html = laws_page(laws)
    assert LawsAnswer(laws).sentence.split()[0] in html
    assert "cannot be told" not in LawsAnswer(laws).sentence
    assert "None" not in LawsAnswer(laws).trust


def test_documents_of_before_are_over_nominal_flops() -> None:
    """GIVEN laws of schema 1 THEN their page says that executed FLOPs were not recorded; others name theirs."""
    before = Laws.load(SCHEMA_1.parent)
    assert before.document["schema"] == 1
    assert before.flops == "nominal"
    assert "executed FLOPs were not recorded" in laws_page(before)
    html = laws_page(laws_of(ONE))
    assert "FLOPs are executed ones" in html
    assert "executed FLOPs were not recorded" not in html


def test_a_cell_links_to_its_page_if_that_is_there(tmp_path: Path) -> None:
    """GIVEN a run with a page, one without and one that is gone, THEN the link leads to what there is."""
    folder = build_laws(tmp_path / "set", ONE)
    document = load_laws(folder)
    runs = [item["path"] for item in document["sources"]]
    (folder / runs[0]).mkdir()
    (folder / runs[0] / "report.html").write_text("")
    (folder / runs[1]).mkdir()
    rows = tables(LAWS.shown(Laws.load(folder)))["cells"].rows
    assert [row["href"] for row in rows[:2]] == [f"./{runs[0]}/report.html", f"./{runs[1]}/"]
    assert all(row["href"] is None for row in rows[2:])
    assert f'<a href="./{runs[0]}/report.html">' in write_laws_page(folder).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text(name: str) -> None:
    """GIVEN a model, a run and a device with a hostile name, THEN the page has it as text alone."""
    document = json.dumps(laws_document(SIX[:2], notes=[HOSTILE[name]], command=HOSTILE[name]))
    for known in ("llama-3.2-1b", "NVIDIA H200"):
        document = document.replace(known, json.dumps(HOSTILE[name])[1:-1])
    html = laws_page(Laws(json.loads(document), Path("nowhere")))
    assert "<script>window.hacked" not in html
    assert "<img src=x" not in html
    assert "<b>&amp;" not in html


def test_what_was_not_measured_is_named() -> None:
    """GIVEN a cell that did not fit, THEN a chip counts it and a table says why, by its code."""
    lost = {
        "sweep": "swept",
        "cell": "bf16-b64",
        "state": "does not fit",
        "reason": "few-cells(cells=1, needed=2)",
    }
    laws = laws_of(ONE, not_measured=[lost])
    assert any(chip.tone == "warn" and "1" in chip.text for chip in LawsAnswer(laws).chips)
    (row,) = tables(LAWS.shown(laws))["not-measured"].texts()
    assert row == ["swept/bf16-b64", "does not fit", "1 cell, and 2 are needed"]


def test_altered_laws_are_refused(tmp_path: Path) -> None:
    """GIVEN a document that energyscope cannot have written, or one without groups, THEN an error says so."""
    folder = build_laws(tmp_path / "set", ONE)
    document = load_laws(folder)
    write_laws(folder, {**document, "groups": []})
    with pytest.raises(RunError, match="no laws"):
        write_laws_page(folder)
    del document["groups"][0]["subjects"][0]["two_term"]["fixed_mj"]
    write_laws(folder, document)
    with pytest.raises(RunError, match="two_term"):
        write_laws_page(folder)


def test_the_limit_of_the_least_energy_is_named_with_what_it_costs(made: dict[str, Laws]) -> None:
    """GIVEN three limits THEN the sentence has the least energy and its time, what follows energy x delay."""
    answer = LawsAnswer(made["limits"])
    assert answer.sentence.startswith("At 300 W, ")
    assert "less energy" in answer.sentence
    assert "40 % more time than at the default" in answer.sentence
    assert answer.follows.startswith("Energy x delay is least at ")
    assert "nvidia-smi -i GPU-1 -pl 300" in answer.follows
    table = tables(LAWS.shown(made["limits"]))["limits"]
    assert [row["held"] for row in table.rows[:3]] == ["the default", "500 W", "300 W"]
    assert table.rows[0]["energy"].value == 0.0
