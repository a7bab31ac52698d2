"""Two processes replay one model together: every call is made by both, and neither waits for one that gave up."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing, nn

from energyscope.components import Component, ComponentTree
from energyscope.errors import DeviceError
from energyscope.replay.capture import capture
from energyscope.replay.coordinator import Coordinator, LeaderLeftError, Order, is_disconnection
from energyscope.replay.distributed import follow, leading
from energyscope.replay.replay_setup import ReplaySetup
from energyscope.replay.targets import targets

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="the processes talk by gloo")
CPU = torch.device("cpu")


class Summing(nn.Module):
    """A layer with a collective: it comes to an end only where both processes call it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.called = 0

    def forward(self, given):
        self.called += 1
        output = self.linear(given)
        dist.all_reduce(output)
        return output


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Summing(), Summing()

    def forward(self, given):
        return self.second(self.first(given))


class Tight(ReplaySetup):
    """A replay setup of a device that has no memory left for one of the targets."""

    def round(self, target):
        if target.key == "node:first":
            raise torch.OutOfMemoryError("no memory left")
        return super().round(target)


def rig_of(kind=ReplaySetup):
    """Return what both processes set up alike."""
    model = Model()
    parts = [("first", model.first), ("second", model.second)]
    blocks = [Component(name, "mlp", None, "block", "model", module) for name, module in parts]
    tree = ComponentTree([Component("model", "model", None, "model", None, model), *blocks])
    return kind(tree, capture(tree, {"given": torch.ones(2, 4)}), None)


def plan_of(replay_setup):
    return targets(replay_setup.tree, "medium")


def both(tmp_path, scenario):
    """Run a scenario in two processes; each gets its rank, and fails the test by what it raises."""
    multiprocessing.spawn(_joined, (str(tmp_path / "meeting"), scenario), nprocs=2)


def _joined(rank, meeting, scenario):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    scenario(rank)
    dist.destroy_process_group()  # its threads must not outlive the interpreter


def replays_alike(rank):
    replay_setup = rig_of()
    plan = plan_of(replay_setup)
    if rank == 1:
        follow(replay_setup, plan, CPU)
    else:
        with leading(replay_setup, plan, CPU) as lead:
            assert lead.elsewhere == {}
            for target in plan:
                with lead.replay_setup.round(target) as round_:
                    calls = lead.replayer.run(round_, 0.03)
                assert calls.count[0] == 0
                assert (np.diff(calls.count) > 0).all()
                assert (np.diff(calls.time_s) >= 0).all()
                assert len(calls.time_s) == len(calls.count)
                assert lead.replay_setup.overhead(target) == []
    model = replay_setup.tree.root.module
    called = torch.tensor([model.first.called, model.second.called])
    leaders = called.clone()
    dist.broadcast(leaders, 0)
    assert torch.equal(called, leaders)
    assert called.min() > 10


@pytest.mark.slow
def test_both_make_the_same_calls(tmp_path):
    """Warm-up, chunks and their number are the leader's; the other process makes every call that it makes."""
    both(tmp_path, replays_alike)


def lacks_memory(rank):
    replay_setup = rig_of(Tight if rank == 1 else ReplaySetup)
    plan = plan_of(replay_setup)
    if rank == 1:
        follow(replay_setup, plan, CPU)
        return
    model, first, *_ = plan
    with leading(replay_setup, plan, CPU) as lead:
        with pytest.raises(torch.OutOfMemoryError, match="another process"), lead.replay_setup.round(first):
            pass
        with lead.replay_setup.round(model) as round_:
            assert lead.replayer.run(round_, 0.01).count[-1] > 0


@pytest.mark.slow
def test_memory_that_one_process_lacks_is_the_leaders_to_judge(tmp_path):
    """GIVEN a process without memory for a target THEN the leader hears of it, and both go on with the next."""
    both(tmp_path, lacks_memory)


class GivingUpError(Exception):
    """Whatever ends a session."""


def give_up_in_a_run(lead):
    lead.replayer._coordinator.give(Order.RUN, -1)
    raise GivingUpError


def gives_up(rank):
    replay_setup = rig_of()
    plan = plan_of(replay_setup)
    if rank == 1:
        follow(replay_setup, plan, CPU)  # told between two targets: an orderly end
        with pytest.raises(LeaderLeftError):
            follow(replay_setup, plan, CPU)  # told in the middle of one
        return
    with pytest.raises(GivingUpError), leading(replay_setup, plan, CPU):
        raise GivingUpError
    with pytest.raises(GivingUpError), leading(replay_setup, plan, CPU) as lead, lead.replay_setup.round(plan[0]):
        give_up_in_a_run(lead)


@pytest.mark.slow
def test_a_leader_that_gives_up_leaves_nobody_waiting(tmp_path):
    """However the leader's session ends, the other process is told, and the leader's own error is raised."""
    both(tmp_path, gives_up)


def is_gone(rank):
    coordinator = Coordinator()
    if rank == 1:
        assert coordinator.next() == (Order.RUN, 7)
        coordinator.dissolve()
        return
    for number in range(7, 100):  # orders are held until they are read: nobody waits for a slow reader
        coordinator.last_word(Order.RUN) if number > 7 else coordinator.give(Order.RUN, number)
    with pytest.raises(DeviceError, match="process 1 of 2 ended"):
        coordinator.answers()


@pytest.mark.slow
def test_a_process_that_ends_is_named(tmp_path):
    """GIVEN a process that is gone THEN waiting for its answer ends, in one line that names it."""
    both(tmp_path, is_gone)


def test_collectives_that_fail_for_a_lost_process_are_told_apart():
    """gloo raises plain RuntimeErrors: those of a lost connection are known by their words."""
    assert is_disconnection(
        RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1")
    )
    assert not is_disconnection(RuntimeError("shapes cannot be multiplied"))
    assert not is_disconnection(ValueError("connection closed"))
