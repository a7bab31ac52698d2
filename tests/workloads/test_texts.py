"""Files of texts: what is read, and the one line that says why something cannot be."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from energyscope.errors import DataError, EnergyscopeError, UsageError
from energyscope.reasons import reason
from energyscope.workloads.texts import Row, file_texts


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def refusal(path: Path) -> EnergyscopeError:
    with pytest.raises(EnergyscopeError) as error:
        file_texts(path, "text", "label")
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("empty.jsonl", "", "is empty, it holds no text"),
        ("empty.csv", "\n\n", "is empty"),
        ("blank.txt", " \n\n", "is empty"),
        ("header.csv", "text,label\n", "holds no text"),
        ("nothing.json", "[]", "holds no text"),
        ("blanks.jsonl", '{"text": " "}\n{"text": null}\n', "holds no text"),
        ("broken.jsonl", '{"text": "a"}\n{oops\n', r"broken.jsonl, line 2, is not JSON"),
        ("broken.json", '[{"text": "a"},\n {oops}]', r"broken.json, line 2, is not JSON"),
        ("deep.jsonl", '{"text": ' + "[" * 100_000 + "\n", r"deep.jsonl, line 1, is "),
        ("number.jsonl", '{"text": ' + "1" * 5000 + "}\n", r"line 1, is JSON that cannot be read"),
        ("half.jsonl", '{"text": "a"}\n{"text": "a \\ud800 b"}\n', r"line 2, holds half of a surrogate pair"),
        ("list.jsonl", '{"text": "a"}\n"b"\n', "must hold one JSON object a line.*number 2 is not one"),
        ("strings.json", '["a"]', "must hold one JSON object a line"),
        ("nested.jsonl", '{"text": ["a"]}\n', r"line 1, has a list in 'text': a text is needed"),
        ("ragged.jsonl", '{"text": "a"}\n\n{"label": 1}\n', r"line 3, has no 'text', which other rows have"),
        ("cells.csv", "text,label\na,b,1\n", "row 1, has more cells than the header"),
        ("quotes.csv", 'text,label\n"a,1\n', r"quotes.csv, line 2, is not valid CSV"),
        ("quoted.csv", 'text,label\n"a" b,1\n', r"quoted.csv, line 2, is not valid CSV"),
        ("binary.txt", b"\xff\xfe\x00\x80", "cannot be read as UTF-8"),
        ("latin.csv", "text,label\ncaf\xe9,1\n".encode("latin-1"), "cannot be read as UTF-8"),
    ],
)
def test_broken_content_is_one_clear_line(tmp_path: Path, name: str, content: str | bytes, complaint: str) -> None:
    """WHEN a data file is empty or broken THEN it is an error of the data, and one line says where."""
    path = written(tmp_path, name, content)
    with pytest.raises(DataError, match=complaint):
        file_texts(path, "text", "label")
    assert refusal(path).exit_code == 1


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("absent.csv", None, "there is no file"),
        ("other.jsonl", '{"sentence": "a", "mood": 1}\n', r"no column 'text' \(it has: sentence, mood\)"),
        ("other.csv", "sentence,mood\na,1\n", r"no column 'text' \(it has: sentence, mood\).*--text-column"),
        ("bare.jsonl", "{}\n", r"no column 'text' \(it has: none\)"),
    ],
)
def test_wrong_option_is_bad_usage(tmp_path: Path, name: str, content: str | None, complaint: str) -> None:
    """WHEN the named file or column does not exist THEN it is bad usage, exit code 2."""
    path = tmp_path / name if content is None else written(tmp_path, name, content)
    with pytest.raises(UsageError, match=complaint):
        file_texts(path, "text", "label")
    assert refusal(path).exit_code == 2


def test_directory_is_bad_usage(tmp_path: Path) -> None:
    """WHEN a directory is given THEN the error says what is wanted."""
    assert "is a directory: give --data a JSONL" in str(refusal(tmp_path))


def test_blank_rows_are_counted_and_the_others_keep_their_numbers(tmp_path: Path) -> None:
    """GIVEN blank rows among others THEN they are left out, with a note, and rows keep their place in the file."""
    path = written(tmp_path, "a.csv", "text,label\na,1\n ,0\n,0\nb,0\n")
    texts = file_texts(path, "text", "label")
    assert texts.rows == (Row("a", "1", 1), Row("b", "0", 4))
    assert texts.notes == (reason("blank-rows", rows=2),)
    lines = file_texts(written(tmp_path, "a.jsonl", '\n{"text": "a"}\n\n{"text": "b"}\n'), "text", "label")
    assert [row.number for row in lines.rows] == [2, 4]


def test_text_within_a_row_may_hold_other_line_ends(tmp_path: Path) -> None:
    """GIVEN Unicode line separators in JSON and line breaks in quoted CSV THEN they stay in the text."""
    text = "one\u2028two\x0cthree"
    lines = file_texts(written(tmp_path, "a.jsonl", '{"text": "one\u2028two\\fthree"}\n'), "text", "label")
    assert [row.text for row in lines.rows] == [text]
    cells = file_texts(
        written(tmp_path, "a.csv", 'text,label\n"one\ntwo, three",1\nfour\u2028five,0\n'), "text", "label"
    )
    assert [row.text for row in cells.rows] == ["one\ntwo, three", "four\u2028five"]


def test_byte_order_mark_and_windows_line_ends_are_no_content(tmp_path: Path) -> None:
    """GIVEN a file from a spreadsheet THEN its mark is no part of the first column's name."""
    path = written(tmp_path, "a.csv", b"\xef\xbb\xbftext,label\r\na,1\r\n")
    assert file_texts(path, "text", "label").rows == (Row("a", "1", 1),)


def test_plain_text_goes_on_from_line_to_line(tmp_path: Path) -> None:
    """GIVEN plain text THEN it is kept whole beside its lines, blank ones too."""
    texts = file_texts(written(tmp_path, "book.md", "a\n\nb\n"), "text", "label")
    assert texts.running == "a\n\nb\n"
    assert texts.rows == (Row("a", None, 1), Row("b", None, 3))
    assert (texts.columns, texts.notes) == ((), ())


def test_documents_may_be_long(tmp_path: Path) -> None:
    """GIVEN a cell beyond the CSV module's own limit THEN it is read, and the limit is as before."""
    before = csv.field_size_limit()
    texts = file_texts(written(tmp_path, "a.csv", f"text,label\n{'long ' * 50_000},1\n"), "text", "label")
    assert len(texts.rows[0].text) == 250_000
    assert csv.field_size_limit() == before
