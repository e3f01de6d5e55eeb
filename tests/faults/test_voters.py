"""Changes of who votes: what is done to a system, what is recorded of it, and that all vote again in the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nemesis.errors import NotDoneError, UnknownOutcomeError
from nemesis.faults.look import CHANGED
from nemesis.faults.processes import Kill
from nemesis.faults.targets import Role
from nemesis.faults.voters import ALL_VOTE, ChangeVoters, VoterChange, VoterChanges
from nemesis.history import METADATA_LOG
from nemesis.report.timeline import BEGINS, ENDS, look_of
from nemesis.schedules.schedule import Heal, Inject
from tests.faults.stage import Stage
from tests.workload.fake_system import NAMES, FakeSystem
from tests.workload.fake_voters import FakeVoters
from tests.workload.recording import Recording

GROUP_LOG = NAMES[0]
ALL = {1, 2, 3}
REMOVE = ChangeVoters(change=VoterChange.REMOVE, target=Role.LEADER)
REPLACE = ChangeVoters(change=VoterChange.REPLACE, target=Role.LEADER)
REMOVE_LEADER, REPLACE_LEADER = Inject(fault_id=0, fault=REMOVE), Inject(fault_id=0, fault=REPLACE)


class VotingStage(Stage):
    """A fake system whose voters can be changed, with an injector, and what is recorded."""

    def __init__(self, folder: Path, *logs: str) -> None:
        super().__init__(folder)
        self.voters = self.system.voters = FakeVoters(logs or (METADATA_LOG, GROUP_LOG))

    def steps(self) -> list[tuple[str, str, str, int]]:
        """The single steps that ended: (f, type, outcome, node)."""
        rows = [(f, kind, json.loads(detail or "{}")) for f, kind, detail in self.recording.nemesis_rows()]
        return [(f, kind, told["outcome"], told["replicas"][0]) for f, kind, told in rows if "outcome" in told]

    def errors(self) -> list[Any]:
        """What the nemesis could not do, and why."""
        return [row["error"] for row in self.recording.rows() if row["process"] == -1 and "error" in row]


@pytest.fixture
def stage(tmp_path: Path) -> VotingStage:
    """In the place of the usual one."""
    return VotingStage(tmp_path)


def refuse(what: str) -> Any:
    """An outcome that refuses one kind of change."""

    def outcome(asked: str, log: str, node: int) -> None:
        if asked == what:
            raise NotDoneError("refused")

    return outcome


async def test_a_voter_is_removed_and_added_back(stage: VotingStage) -> None:
    """A removed voter stays up, and votes again when the fault is healed; the metadata log is left alone."""
    await stage.do_each(REMOVE_LEADER)
    assert stage.voters.votes == {METADATA_LOG: ALL, GROUP_LOG: {2, 3}}
    assert stage.injector.open_faults == ("membership-remove [1]",)
    await stage.do_each(Heal(fault_id=0))

    assert stage.voters.votes == {METADATA_LOG: ALL, GROUP_LOG: ALL}
    assert stage.system.calls == []
    assert stage.steps() == [("remove-voter", "info", "done", 1), ("add-voter", "info", "done", 1)]
    assert stage.kinds("restore-voters") == ["invoke", "info"]


async def test_a_voter_is_replaced(stage: VotingStage) -> None:
    """It is removed from every log before its disk is wiped, and added to all of them with the new one."""
    await stage.do_each(REPLACE_LEADER, Heal(fault_id=0))

    assert stage.system.calls == [("stop", 1), ("wipe", 1), ("start", 1)]
    each = [("remove", METADATA_LOG, 1), ("remove", GROUP_LOG, 1), ("add", METADATA_LOG, 1), ("add", GROUP_LOG, 1)]
    assert stage.voters.calls == each
    assert [f for f, *_ in stage.steps()] == [*["remove-voter"] * 2, "empty-disk", *["add-voter"] * 2]


async def test_leadership_is_handed_over(stage: VotingStage) -> None:
    """The named voter is asked to lead, and there is nothing to undo."""
    fault = ChangeVoters(change=VoterChange.TRANSFER, target=Role.FOLLOWER)

    await stage.do_each(Inject(fault_id=0, fault=fault), Heal(fault_id=0))

    ((what, log, node),) = stage.voters.calls
    assert (what, log) == ("transfer", GROUP_LOG)
    assert stage.steps() == [("transfer-leadership", "info", "done", node)]


async def test_a_refused_removal_is_told_as_refused(stage: VotingStage) -> None:
    """What is definitely not done is recorded as failed, is not undone, and wipes no disk."""
    stage.voters.outcome = refuse("remove")

    await stage.do_each(REPLACE_LEADER, Heal(fault_id=0))

    assert stage.voters.calls == [("remove", METADATA_LOG, 1)]
    assert stage.system.calls == []
    assert stage.steps() == [("remove-voter", "fail", "refused", 1), ("empty-disk", "fail", "not-tried", 1)]


@pytest.mark.parametrize("is_made", [False, True])
async def test_what_nobody_knows_is_told_as_unknown(is_made: bool, tmp_path: Path) -> None:
    """A removal without an answer wipes no disk; whoever may have been removed is added back, if it does not vote."""
    stage = VotingStage(tmp_path, GROUP_LOG)

    def outcome(asked: str, log: str, node: int) -> None:
        if asked == "remove":
            raise UnknownOutcomeError("timed out")

    stage.voters.outcome, stage.voters.late = (stage.voters.late, outcome) if is_made else (outcome, stage.voters.late)

    await stage.do_each(REPLACE_LEADER, Heal(fault_id=0))

    assert stage.voters.votes == {GROUP_LOG: ALL}
    assert stage.system.calls == []
    told = stage.steps()
    assert told[0] == ("remove-voter", "info", "unknown", 1)
    assert told[-1] == (("add-voter", "info", "done", 1) if is_made else ("add-voter", "fail", "refused", 1))


async def test_a_majority_goes_on_voting(stage: VotingStage) -> None:
    """While one of three does not vote, no other is removed: that is not even tried."""
    stage.voters.votes[GROUP_LOG] = {1, 2}

    await stage.do_each(REMOVE_LEADER, Heal(fault_id=0))

    assert stage.voters.calls == []
    assert stage.steps() == [("remove-voter", "fail", "not-tried", 1)]
    assert "2 must be" in " ".join(stage.errors())


async def test_there_is_one_change_at_a_time(stage: VotingStage) -> None:
    """Until whoever was removed votes again, another change is not tried, and told so."""
    transfer = ChangeVoters(change=VoterChange.TRANSFER, target=Role.FOLLOWER)

    await stage.do_each(REMOVE_LEADER, Inject(fault_id=1, fault=transfer), Heal(fault_id=1), Heal(fault_id=0))
    assert [outcome for _, _, outcome, _ in stage.steps()] == ["done", "not-tried", "done"]
    await stage.do_each(Inject(fault_id=2, fault=transfer))

    assert stage.steps()[-1][:3] == ("transfer-leadership", "info", "done")


async def test_it_is_tried_until_all_vote_again(stage: VotingStage) -> None:
    """Nobody waits for that: the healing is over when it has come, and the steps after it are not held up."""
    refused = asyncio.Event()

    def outcome(what: str, log: str, node: int) -> None:
        if what == "add" and not refused.is_set():
            refused.set()
            raise NotDoneError("not yet")

    stage.voters.outcome = outcome
    await stage.do_each(REMOVE_LEADER, Heal(fault_id=0))
    assert (refused.is_set(), stage.kinds("restore-voters")) == (True, ["invoke"])
    await stage.injector.heal_all()

    assert stage.voters.votes[GROUP_LOG] == ALL
    adds = [(kind, outcome) for f, kind, outcome, _ in stage.steps() if f == "add-voter"]
    assert adds == [("fail", "refused"), ("info", "done")]
    assert stage.kinds("restore-voters") == ["invoke", "info"]


async def test_nobody_is_removed_while_nobody_leads(tmp_path: Path) -> None:
    """Where nobody says who votes, it is not known that enough would be left."""
    stage = VotingStage(tmp_path, GROUP_LOG)
    stage.voters.leaderless = {GROUP_LOG}
    changes = VoterChanges(stage.system, stage.recording.recorder, led_s_max=0.01)

    changes.begin(0, REMOVE, (1,))
    changes.heal(0, {})
    await changes.finish(at_most_s=0.5)

    assert stage.voters.calls == []
    assert stage.steps() == [("remove-voter", "fail", "not-tried", 1)]


async def test_a_disk_that_cannot_be_wiped_is_told(tmp_path: Path) -> None:
    """A node that does not come back with its new disk is recorded as failed, and started at the end."""
    stage = VotingStage(tmp_path, GROUP_LOG)
    stage.system.refuses_start = {1}

    await stage.do_each(REPLACE_LEADER)
    assert ("empty-disk", "fail", "refused", 1) in stage.steps()
    stage.system.refuses_start = set()
    await stage.injector.heal_all()

    assert stage.system.running == ALL
    assert stage.voters.votes == {GROUP_LOG: ALL}


async def test_at_the_end_all_vote_again(stage: VotingStage) -> None:
    """Whoever does not vote is added when all is healed, also one that nobody here has removed."""
    stage.voters.votes[METADATA_LOG] = {1, 2}

    await stage.do_each(REMOVE_LEADER, Inject(fault_id=1, fault=Kill(target=Role.FOLLOWER)))
    await stage.injector.heal_all()

    assert stage.voters.votes == {METADATA_LOG: ALL, GROUP_LOG: ALL}
    assert stage.injector.open_faults == ()
    last = stage.recording.harness_rows()[-1]
    assert last[:2] == (ALL_VOTE, "info")
    assert json.loads(last[2] or "") == {"voters": {METADATA_LOG: [1, 2, 3], GROUP_LOG: [1, 2, 3]}}


@pytest.mark.parametrize("what", ["refused", "leaderless"])
async def test_not_all_that_vote_is_what_the_harness_could_not_do(what: str, tmp_path: Path) -> None:
    """Who cannot be added in time, and a log of which nobody tells who votes, keep the run from being valid."""
    stage = VotingStage(tmp_path, GROUP_LOG)
    stage.voters.votes[GROUP_LOG] = {2, 3} if what == "refused" else ALL
    stage.voters.outcome = refuse("add")
    stage.voters.leaderless = {GROUP_LOG} if what == "leaderless" else set()

    changes = VoterChanges(stage.system, stage.recording.recorder)
    changes.begin(0, ChangeVoters(target=Role.LEADER, change=VoterChange.TRANSFER), ())
    changes.heal(0, {})
    await changes.finish(at_most_s=0.01)

    assert stage.recording.harness_rows()[-1][:2] == (ALL_VOTE, "fail")


async def test_voters_for_ever_are_not_changed(stage: VotingStage) -> None:
    """Where voters cannot be changed the fault is recorded as not done, and nobody asks at the end who votes."""
    stage.voters = stage.system.voters = FakeVoters()

    await stage.do_each(REMOVE_LEADER, Heal(fault_id=0))
    await stage.injector.heal_all()

    assert stage.kinds("membership-remove") == ["invoke", "fail"]
    assert stage.recording.harness_rows() == []


async def test_an_abandoned_change_does_nothing_more(tmp_path: Path) -> None:
    """When the run is broken off, nobody is added and no node is started."""
    wiping = asyncio.Event()

    class NeverWiped(FakeSystem):
        async def wipe(self, node: int) -> None:
            wiping.set()
            await asyncio.Event().wait()

    system = NeverWiped()
    system.voters = FakeVoters((GROUP_LOG,))
    changes = VoterChanges(system, Recording(tmp_path).recorder)

    changes.begin(0, REPLACE, (1,))
    await wiping.wait()
    await changes.abandon()

    assert system.running == {2, 3}
    assert system.voters.votes == {GROUP_LOG: {2, 3}}


@pytest.mark.parametrize("change", VoterChange)
def test_the_report_knows_the_change_by_its_name(change: VoterChange) -> None:
    """Beginning and healing are drawn as one interval of their own kind."""
    fault = ChangeVoters(change=change, target=Role.LEADER)

    assert look_of(fault.name, BEGINS) is look_of(fault.healing, ENDS) is CHANGED
