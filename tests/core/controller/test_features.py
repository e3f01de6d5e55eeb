"""The feature level: raised once everybody knows the new one, never lowered, and what waits for it is refused."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replica.core import messages as m
from replica.core.controller.controller import CONTROLLER_REQUESTS, Controller
from replica.core.controller.features import REQUESTS_SINCE, level_fault
from replica.core.controller.invariants import check_levels
from replica.core.controller.state import ControllerState
from replica.core.metadata.image import MetadataImage
from replica.core.metadata.levels import LEVELS, NEWEST_LEVEL, RECORDS_SINCE
from replica.core.metadata.records import FeatureLevelRecord
from replica.core.metadata.replay import METADATA_LOG
from replica.core.quorum.describing import levels_known
from replica.core.rules import Rules
from replica.errors import ErrorCode
from replica.ids import ReplicaId
from tests.core.controller.bench import CLUSTER, CONFIG, Bench
from tests.core.controller.test_quorum_controller import Stage

ALL_NEW = {1: 2, 2: 2, 3: 2}


def asked(bench: Bench, level: int) -> m.UpdateFeaturesResponse:
    return bench.ask(m.UpdateFeaturesRequest(feature_level=level), m.UpdateFeaturesResponse)


@pytest.mark.parametrize(
    ("at", "known", "level", "message"),
    [
        pytest.param(1, ALL_NEW, 2, "", id="all know it"),
        pytest.param(1, {**ALL_NEW, 4: 2}, 2, "", id="so does a voter that is no broker"),
        pytest.param(2, {1: 1}, 2, "", id="there already"),
        pytest.param(1, {**ALL_NEW, 3: 1}, 2, "replica 3 knows 1 at the most", id="an older broker"),
        pytest.param(1, {**ALL_NEW, 4: 1}, 2, "replica 4 knows 1 at the most", id="an older voter"),
        pytest.param(1, {1: 2, 2: 2}, 2, "replica 3 has not fetched", id="a broker that is down"),
        pytest.param(2, ALL_NEW, 1, "at feature level 2, which is never lowered", id="lowered"),
        pytest.param(1, {**ALL_NEW, 1: 99}, NEWEST_LEVEL + 1, "there is no feature level", id="not known here"),
    ],
)
def test_who_keeps_the_level_from_being_raised(at: int, known: Mapping[int, int], level: int, message: str) -> None:
    """Everybody must know it, also who is down; what is refused is refused in words, and changes nothing."""
    bench = Bench(level=at)
    bench.start(1, 2, 3)
    bench.newest_levels = {ReplicaId(replica_id): newest for replica_id, newest in known.items()}
    answer = asked(bench, level)
    if message:
        assert (answer.error, message in answer.message) == (ErrorCode.INVALID_UPDATE_VERSION, True), answer
    else:
        assert answer.error is ErrorCode.NONE, answer
    is_raised = not message and level > at
    assert bench.records == ((FeatureLevelRecord(level=level),) if is_raised else ())
    assert bench.committed.level == (level if is_raised else at)


def test_the_level_and_who_knows_which_are_told() -> None:
    """Another controller, with the log or a snapshot, is at the same level, and hears anew what all know."""
    bench = Bench(level=1)
    bench.start(1, 2)
    bench.newest_levels = {ReplicaId(1): 2, ReplicaId(2): 2}
    asked(bench, 2)
    bench.newest_levels = {ReplicaId(1): 2}
    bench.restart_from_snapshot()
    told = bench.ask(m.DescribeFeaturesRequest(), m.DescribeFeaturesResponse)
    assert told.feature_level == 2
    assert [(each.replica_id, each.newest_feature_level) for each in told.replicas] == [(1, 2), (2, None)]


@pytest.mark.parametrize(("image", "first"), [(MetadataImage(), 2), (MetadataImage(next_producer_id=7), None)])
def test_a_new_cluster_begins_at_the_level_of_its_format(image: MetadataImage, first: int | None) -> None:
    """Its first controller writes it before anything else; one of a cluster that has decided anything never does."""
    controller = Controller(cluster_id=CLUSTER, config=CONFIG, rules=Rules(), initial_level=2)
    controller.activate(image, 0)
    assert controller.tick(0) == (() if first is None else (FeatureLevelRecord(level=first),))
    assert controller.tick(0) == ()
    assert controller.image.level == (first or 1)


def test_what_came_with_a_level_is_refused_below_it() -> None:
    """In words that say what to do."""
    c = ControllerState(cluster_id=CLUSTER, config=CONFIG, rules=Rules())
    fault = level_fault(c, 2)
    assert fault is not None
    assert "needs feature level 2, and the cluster is at 1" in fault
    c.image = MetadataImage(level=2)
    assert level_fault(c, 2) is None


def test_a_record_below_its_level_is_our_own_mistake() -> None:
    """A replica of an older release would stop at it."""
    check_levels([FeatureLevelRecord(level=2)], MetadataImage(level=2))
    with pytest.raises(AssertionError):
        check_levels([FeatureLevelRecord(level=2)], MetadataImage())


@pytest.mark.parametrize(("kind", "since"), [*RECORDS_SINCE.items(), *REQUESTS_SINCE.items()])
def test_what_has_a_level_has_one_that_there_is(kind: type, since: int) -> None:
    """Above the first, which all have."""
    assert 1 < since <= NEWEST_LEVEL
    assert since in LEVELS
    assert kind in {*RECORDS_SINCE, *CONTROLLER_REQUESTS}


@pytest.mark.parametrize(("told", "known"), [(2, 2), (None, 1)])
def test_a_leader_knows_what_a_voter_knows_by_its_fetch(told: int | None, known: int) -> None:
    """A release without levels says nothing, which is the first; before a fetch in the epoch nothing is known."""
    stage = Stage()
    stage.be_elected()
    log = stage.core.logs[METADATA_LOG]
    assert levels_known(log, ()) == {1: NEWEST_LEVEL, 2: None}
    stage.commit(newest_level=told)
    assert levels_known(log, (ReplicaId(9),)) == {1: NEWEST_LEVEL, 2: known, 9: None}
    call_id = stage.call(m.UpdateFeaturesRequest(feature_level=2))
    stage.commit(newest_level=told)
    answer = stage.replies[call_id]
    assert isinstance(answer, m.UpdateFeaturesResponse)
    assert answer.error is (ErrorCode.NONE if known == 2 else ErrorCode.INVALID_UPDATE_VERSION)
    assert stage.core.metadata.image.level == known


def test_a_replica_that_reads_a_level_above_its_own_halts() -> None:
    """With one sentence, and nothing of what follows is applied."""
    stage = Stage(initial_level=2, newest_level=1)
    stage.be_elected()
    stage.commit()  # Which makes it the first controller of a new cluster.
    stage.commit()
    assert stage.core.halted is not None
    assert "feature level 2, and this release knows none above 1; start it with" in stage.core.halted
    assert stage.core.metadata.image == MetadataImage()
