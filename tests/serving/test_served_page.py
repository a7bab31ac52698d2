"""The page and the terminal text of measured servers."""

from __future__ import annotations

import json

import pytest
from page_gallery import HOSTILE
from served_builder import build_served

from energyscope.errors import RunError
from energyscope.reporting.serving.answer import ServingAnswer
from energyscope.reporting.serving.page import serving_page
from energyscope.reporting.serving.served import Server
from energyscope.reporting.serving.terminal import table_of
from energyscope.serving.run import load_serving


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    return build_served(tmp_path_factory.mktemp("runs") / "before")


def test_the_answer_says_what_a_request_takes(served):
    """GIVEN a load curve THEN the sentence has its best and first point, and the trust line the worst error."""
    answer = ServingAnswer(Server(served))
    assert answer.sentence.startswith("A request of 512 + 128 tokens takes ")
    assert "of it beyond idle power; alone it takes" in answer.sentence
    assert "predicted within" in answer.trust
    assert [stat.label for stat in answer.stats] == [
        "Idle engine", "Prompt token", "Generated token alone", "Generated token among 32"
    ]  # fmt: skip
    assert answer.sentence.replace("\u202f", " ") in serving_page(Server(served)).replace("\xa0", " ")


def test_rates_stand_behind_users(tmp_path):
    """GIVEN rates THEN their points follow those of users, by what was asked for, with their energy."""
    served = build_served(tmp_path / "run", users=(1, 2), rates=("2", "8"))
    rows = table_of(Server(served), "curve").rows
    assert [row["asked"] for row in rows] == ["1 user", "2 users", "2 per second", "8 per second"]
    assert rows[2]["request"].value > rows[3]["request"].value > 0


def test_money_and_carbon_follow_from_the_energy(served):
    """GIVEN prices THEN a million tokens cost what their kWh do."""
    row = table_of(Server(served), "curve").rows[0]
    assert row["kwh"] == pytest.approx(row["token"] * 1e6 / 3.6e6)
    assert row["money"] == pytest.approx(0.3 * row["kwh"])
    assert row["co2e_kg"] == pytest.approx(0.4 * row["kwh"])


@pytest.mark.parametrize("words", HOSTILE.values(), ids=HOSTILE)
def test_words_of_others_are_only_shown(tmp_path, words):
    """GIVEN a server whose texts would break a page THEN they are escaped."""
    page = serving_page(Server(build_served(tmp_path / "run", words=words, users=(1, 2), seconds=2)))
    assert "<script>window.hacked" not in page
    assert "<img src=x" not in page


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("serving.json", "{", "serving.json"),
        ("serving.json", '{"schema": 99}', "newer energyscope"),
        ("serving.json", '{"schema": 1}', "lacks costs"),
        ("serving.csv", "load,kind\n", "serving.csv"),
    ],
)
def test_damaged_files_are_one_line(tmp_path, name, content, says):
    """GIVEN a file that somebody changed THEN the error names it."""
    path = build_served(tmp_path / "run", users=(1, 2), seconds=2).path
    (path / name).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=says):
        load_serving(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("idle_w", "x"),
        ("costs", [3]),
        ("phases", [{"phase": "prompt"}]),
        ("million_tokens", {"a": 1}),
        ("knee", 4),
    ],
)
def test_values_of_another_kind_are_one_line(tmp_path, key, value):
    """GIVEN a value of serving.json that nobody wrote so THEN the run is refused in one line."""
    path = build_served(tmp_path / "run", users=(1, 2), seconds=2).path
    document = json.loads((path / "serving.json").read_text(encoding="utf-8"))
    (path / "serving.json").write_text(json.dumps({**document, key: value}), encoding="utf-8")
    with pytest.raises(RunError, match=r"serving\.json cannot be read \("):
        load_serving(path)


def test_the_document_has_all_numbers(served):
    """GIVEN --json THEN loads, costs and phases are in it, as JSON can hold them."""
    document = json.loads(json.dumps(Server(served).document))
    assert {"costs", "phases", "held_out", "loads", "knee", "idle_w"} <= set(document)
