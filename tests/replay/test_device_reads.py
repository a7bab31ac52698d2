"""What a model reads from the device is recorded in a pass and repeated in a capture."""

from __future__ import annotations

import pytest
import torch
from reading_models import bart, gpt_oss

from energyscope.replay.device_reads import DeviceReads

META = torch.device("meta")
CPU = torch.device("cpu")  # stands for the device: what is read from it is recorded


def halves(value):
    """Halve until below 1, as the values say, and count how often that took."""
    for step in range(10):
        if value < 1:
            return step
        value = value / 2
    return 10


def test_decisions_are_those_of_the_pass_before():
    """GIVEN a loop that goes on by values WHEN it is repeated on others THEN it decides as it did, every time."""
    reads = DeviceReads(CPU)
    with reads.recorded():
        assert halves(torch.tensor(5.0)) == 3
    assert reads.count == 4
    with reads.repeated():
        assert halves(torch.tensor(100.0)) == 3
        assert halves(torch.tensor(0.5)) == 3
    assert halves(torch.tensor(100.0)) == 7


@pytest.mark.parametrize("read", [bool, float, int, torch.Tensor.item, torch.Tensor.tolist])
def test_every_way_to_read_a_value(read):
    """GIVEN a value that is read as Python's THEN it is repeated as it was, of whatever kind."""
    reads = DeviceReads(CPU)

    def value(tensor):
        return read(tensor)

    with reads.recorded():
        before = value(torch.tensor(3))
    with reads.repeated():
        assert value(torch.tensor(0)) == before == read(torch.tensor(3))


def test_what_is_not_read_in_the_capture_does_not_count():
    """GIVEN a line that is left out in the capture THEN other lines still get their own values."""
    reads = DeviceReads(CPU)

    def pass_(*, asks):
        if asks and torch.tensor(1).item() == 0:
            raise AssertionError
        return torch.tensor(7).item()

    with reads.recorded():
        pass_(asks=True)
    with reads.repeated():
        assert pass_(asks=False) == 7


def test_a_line_that_was_not_recorded_reads_as_ever():
    """GIVEN nothing recorded THEN values are read, which in a capture fails as it should."""
    with DeviceReads(CPU).repeated():
        assert torch.tensor(2).item() == 2


def test_other_devices_are_left_alone():
    """GIVEN a GPU's reads THEN those of the host's tensors are neither recorded nor repeated."""
    reads = DeviceReads(torch.device("cuda", 0))
    with reads.recorded():
        torch.tensor(2).item()
    assert reads.count == 0


@pytest.mark.parametrize(
    ("value", "dtype"), [(0.0, torch.float16), (3, None), (True, None), (1.5, None), ([-1], int)]
)
def test_constants_are_made_on_the_device(monkeypatch, value, dtype):
    """GIVEN a constant of a number THEN it is filled in there, with the type that it would have had."""
    expected = torch.tensor(value, dtype=dtype, device=CPU)
    filled = []
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *args, **named: filled.append(args) or full(*args, **named))
    with DeviceReads(CPU).repeated():
        made = torch.tensor(value, dtype=dtype, device=CPU)
        torch.tensor([1, 2], device=CPU)  # of a list: there is no other way
    assert filled == [((1,), value[0]) if isinstance(value, list) else ((), value)]
    assert made.dtype == expected.dtype
    assert torch.equal(made, expected)


@pytest.mark.parametrize("to", [("meta",), (META, torch.half), (torch.empty(0, device=META),)])
def test_numbers_are_filled_in_where_they_would_be_copied_to(monkeypatch, to):
    """GIVEN a number in the host's memory THEN it is filled in there, with the type that it would have had."""
    number, expected = torch.tensor([3]), torch.tensor([3]).to(*to)
    filled = []
    full = torch.full
    monkeypatch.setattr(torch, "full", lambda *args, **named: filled.append(args) or full(*args, **named))
    with DeviceReads(META).repeated():
        made = number.to(*to)
        torch.zeros(2).to(*to)  # of several there is no other way
        assert number.to(torch.half).item() == 3
    assert filled == [((1,), 3)]
    assert (made.device, made.dtype, made.shape) == (expected.device, expected.dtype, expected.shape)


def test_calls_that_nothing_stands_for_are_made_as_ever():
    """GIVEN a form of the call that is not looked into THEN PyTorch makes it."""
    with DeviceReads(META).repeated():
        assert torch.tensor([3]).to(device="meta", copy=True).device == META
        assert torch.tensor([3]).to("meta", torch.half, False, True).dtype == torch.half


def test_a_list_that_is_changed_is_repeated_as_it_was():
    """GIVEN a list of values that is changed afterwards THEN the next pass gets it as it was read."""
    reads, seen = DeviceReads(CPU), []
    for context in (reads.recorded, reads.repeated, reads.repeated):
        with context():
            seen.append(torch.tensor([1, 2]).tolist())
            seen[-1].append(3)
    assert seen == [[1, 2, 3]] * 3


def test_data_that_are_named_are_made_as_ever():
    """GIVEN a constant by name THEN PyTorch makes it."""
    with DeviceReads(CPU).recorded():
        assert torch.tensor(data=3, device=CPU).item() == 3


@pytest.mark.parametrize(("make", "least"), [(bart, 2), (gpt_oss, 0)])
def test_models_do_the_same_with_repeated_reads(make, least):
    """GIVEN a model that looks for overflows, and one with a mask of constants THEN outputs are the same."""
    torch.manual_seed(0)
    model, ids = make().eval(), torch.arange(12)[None]
    reads = DeviceReads(CPU)
    with torch.no_grad():
        expected = model(input_ids=ids).logits
        with reads.recorded():
            model(input_ids=ids)
        with reads.repeated():
            assert torch.equal(model(input_ids=ids).logits, expected)
    assert reads.count >= least
