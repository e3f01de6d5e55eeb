"""All logs of one open data directory, and how the core's effects on storage are performed on them.

Owns which logs are open, the order of opening and closing, and the translation of an effect into calls. Both drivers
perform storage effects here, so that what is simulated is what runs. When a flush happens, or a snapshot is stored, and
how a reply travels, is theirs. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from replica.core.effects import (
    Append,
    ApplyRetention,
    ApplySettings,
    CreateLog,
    DeleteLog,
    DropSnapshots,
    Effect,
    FindBatch,
    Flush,
    Halt,
    InstallSnapshot,
    LogRange,
    RaiseLogStart,
    ReadLog,
    ReplaceLog,
    Reply,
    ReplyWithOffset,
    ReplyWithRecords,
    ReplyWithSnapshot,
    ScanProducers,
    Send,
    StartLogAt,
    StoreEpochs,
    StoreHighWatermarks,
    StoreQuorumState,
    StoreSnapshot,
    StoreVoters,
    Truncate,
)
from replica.core.events import BatchFound, LogDirectoryFailed, LogRead, LogStartMoved, ProducersScanned
from replica.core.lanes import Place, Question, place_of
from replica.core.log.producing import ACKS_ALL
from replica.core.log.recovered import RecoveredLog
from replica.core.messages import ListOffsetsResponse, ProduceRequest, ProduceResponse, Request, Response
from replica.core.reading import read_ranges
from replica.core.rules.log import LogRules
from replica.errors import ErrorCode
from replica.ids import BrokerEpoch, CallId, Offset, TopicPartition
from replica.storage.config import LogConfig
from replica.storage.directory import RECOVERY_POINT_FILE, DataDirectory
from replica.storage.errors import (
    CorruptCheckpointError,
    CorruptLogError,
    DamagedLogError,
    FailedDirectoryError,
    OutOfDescriptorsError,
    StorageError,
)
from replica.storage.late_files import LateFiles
from replica.storage.log import LogStore
from replica.storage.log_directories import holds_partition
from replica.storage.log_dirs import LogDir
from replica.storage.partition_metadata import FILE_NAME as METADATA_FILE
from replica.storage.partition_metadata import read_partition_metadata

StorageEffect = (
    StoreQuorumState
    | StoreEpochs
    | StoreVoters
    | StoreHighWatermarks
    | CreateLog
    | DeleteLog
    | ReplaceLog
    | StartLogAt
    | RaiseLogStart
    | InstallSnapshot
    | DropSnapshots
    | ApplyRetention
    | ReadLog
    | FindBatch
    | ScanProducers
    | Append
    | Truncate
    | Question
)
StorageReport = LogRead | BatchFound | ProducersScanned | LogStartMoved
Loss = DamagedLogError | FailedDirectoryError
"""What takes away one log, or all of one log directory, and nothing else."""


class Answer(Struct, frozen=True, kw_only=True):
    """What a question earned: ``records`` are those that were read of each log, ``damage`` what came to light."""

    response: Response
    records: Mapping[TopicPartition, bytes] = field(default_factory=dict)
    damage: tuple[Loss, ...] = ()


class LogTable:
    """The open logs of a data directory. Every method may raise StorageError.

    Close it with ``close_clean``, or give it up with ``abandon``.
    """

    def __init__(
        self,
        directory: DataDirectory,
        config: LogConfig,
        rules: LogRules,
        stores: Mapping[TopicPartition, LogStore],
        recovered: Mapping[TopicPartition, RecoveredLog],
    ) -> None:
        self.directory = directory
        self.recovered = recovered
        """The logs as they were found when the table was opened."""
        self.config = config
        self._rules = rules
        self._stores = dict(stores)
        self._is_open = True

    @classmethod
    def open(
        cls,
        directory: DataDirectory,
        quorum_logs: Iterable[TopicPartition],
        *,
        config: LogConfig | None = None,
        rules: LogRules | None = None,
    ) -> LogTable:
        """Recover the quorum logs, created where the directory has never had them, and every partition that there is.

        A partition's log that is damaged is only told of, as it was found: it has no store. Nor has one in a log
        directory that has failed, or that is not there any more. If a quorum log is refused, nothing has changed, the
        directory is closed, and a marker of a clean stop is where it was. A quorum log that is not among them is
        refused as well: it would vote, and stand in the way of a topic. So is one that has the name of a topic.
        """
        config = LogConfig() if config is None else config
        rules = LogRules() if rules is None else rules
        quorum_logs = tuple(dict.fromkeys(quorum_logs))
        with ExitStack() as undo:
            undo.callback(directory.close, clean=directory.was_clean, broker_epoch=directory.clean_broker_epoch)
            held = directory.topic_partitions()
            _check_owned(directory, [name for name in held if name not in quorum_logs])
            _check_free(directory, quorum_logs, held)
            stores: dict[TopicPartition, LogStore] = {}
            recovered: dict[TopicPartition, RecoveredLog] = {}
            for name in dict.fromkeys((*quorum_logs, *held)):
                try:
                    directory.check_is_there(name)
                    stores[name], recovered[name] = LogStore.open(directory, name, config=config, rules=rules)
                except (CorruptLogError, CorruptCheckpointError, DamagedLogError, FailedDirectoryError) as error:
                    if name in quorum_logs:
                        raise
                    recovered[name] = _damaged(directory, name, str(error).partition("; ")[0])
                    continue
                # A log that was clean and was only opened is clean: otherwise the marker could not come back.
                undo.callback(stores[name].close, clean=directory.was_clean)
            undo.pop_all()
        return cls(directory, config, rules, stores, recovered)

    def forget_snapshots(self) -> None:
        """Let go of the contents of the snapshots in ``recovered``, once the core has them: they can be large."""
        self.recovered = {name: replace(found, snapshot=b"") for name, found in self.recovered.items()}

    @property
    def stores(self) -> Mapping[TopicPartition, LogStore]:
        """The open logs, to flush, read and look at."""
        return self._stores

    # --- log directories that have failed ---------------------------------------------------------------------------

    def failed_at_start(self) -> tuple[LogDirectoryFailed, ...]:
        """The log directories that could not be opened, or not all of their logs: what the core is to hear first."""
        return tuple(self._failed(place) for place in self.directory.places.dirs if place.failure is not None)

    def on_failed(self, failure: FailedDirectoryError) -> LogDirectoryFailed:
        """What the core has to hear of a failure, before anything else: all logs that lie there are gone for now."""
        return self._failed(next(place for place in self.directory.places.dirs if place.path == failure.directory))

    def _failed(self, place: LogDir) -> LogDirectoryFailed:
        assert place.failure is not None, place.path
        logs = self.directory.places.logs_of(place)
        return LogDirectoryFailed(directory=f"{place.path}", logs=logs, reason=place.failure)

    def told(self, request: Request | None, response: Response) -> Response:
        """What may be told the caller of ``request``: not that a write is done whose log could not be written to.

        1. A write of acks=1 comes. 2. The core has it appended, and answered. 3. The disk refuses, of which the core
        hears next. Whatever waits for a flush is answered after that alone, and is true.
        """
        if not isinstance(request, ProduceRequest) or request.acks == ACKS_ALL:
            return response
        is_done = isinstance(response, ProduceResponse) and response.error is ErrorCode.NONE
        if not is_done or not self.directory.is_failed(request.topic_partition):
            return response
        return ProduceResponse(error=ErrorCode.KAFKA_STORAGE_ERROR)

    # --- effects ----------------------------------------------------------------------------------------------------

    def place_of(self, effect: Effect, requests: Mapping[CallId, Request]) -> Place:
        """Where an effect waits for what is before it. ``requests`` are those not yet answered."""
        if isinstance(effect, Send | Reply) and not self._rules.messages_wait_for_their_log():
            return Place()
        return place_of(effect, requests)

    def waits_for_disk(self, effect: Effect) -> bool:
        """Tell whether an effect may wait for the disk now. An append that makes no file and a read of memory do not.

        Nor does what a driver hands to a thread of its own, or to a peer.
        """
        match effect:
            case Send() | Reply() | Flush() | StoreSnapshot() | ApplySettings() | Halt():
                return False
            case Append(topic_partition=name, batches=batches):
                store = self._stores.get(name)
                return store is None or store.makes_files_for(batches)
            case ReadLog(range=log_range):
                return not self._is_in_memory(log_range)
            case ReplyWithRecords(ranges=ranges):
                return not all(map(self._is_in_memory, ranges))
            case _:
                return True

    def _is_in_memory(self, log_range: LogRange) -> bool:
        store = self._stores.get(log_range.topic_partition)
        return store is not None and store.is_in_memory(log_range.start_offset)

    def _store(self, name: TopicPartition) -> LogStore:
        """The log of this name. FailedDirectoryError where the disk has refused to make it."""
        store = self._stores.get(name)
        if store is None and (failure := self.directory.failure_of(name)) is not None:
            raise failure
        assert store is not None, f"there is no log of {name}"
        return store

    def perform(self, effect: StorageEffect) -> StorageReport | Answer | None:
        """Do what the core asks of storage, and return what it is to be told, or what a question earned."""
        match effect:
            case StoreQuorumState(topic_partition=name, state=state):
                self._store(name).store_quorum_state(state)
            case StoreEpochs(topic_partition=name, entries=entries):
                self._store(name).store_epochs(entries)
            case StoreVoters(topic_partition=name, entries=voters):
                self._store(name).store_voters(voters)
            case StoreHighWatermarks(offsets=offsets):
                self.directory.store_high_watermarks(offsets)
            case CreateLog():
                self._create(effect)
            case DeleteLog(topic_partition=name):
                self._close(name)
                if self.directory.has_log(name):  # A new one has no files before anything is written to it.
                    self.directory.delete_log(name)
            case ReplaceLog(topic_partition=name, topic_id=topic_id):
                self._close(name)
                self.directory.put_log_aside(name)
                self._create(CreateLog(topic_partition=name, topic_id=topic_id))
            case Append(topic_partition=name, batches=batches):
                self._store(name).append(batches)
            case ApplyRetention() | ReadLog() | FindBatch() | ScanProducers():
                return self._look(effect)
            case ReplyWithRecords():
                return self._with_records(effect)
            case ReplyWithOffset():
                return self._with_offset(effect)
            case ReplyWithSnapshot(topic_partition=name, snapshot_id=snapshot_id):
                data = self._store(name).read_snapshot(snapshot_id, effect.position, effect.max_bytes)
                return Answer(response=effect.response.with_data(data))
            case _:
                self._cut(effect)
        return None

    def _cut(self, effect: StartLogAt | RaiseLogStart | InstallSnapshot | DropSnapshots | Truncate) -> None:
        store = self._store(effect.topic_partition)
        match effect:
            case StartLogAt(start_offset=start_offset, keeps_producers=keeps_producers):
                store.start_at(start_offset, keeps_producers=keeps_producers)
            case RaiseLogStart(log_start_offset=log_start_offset):
                store.raise_log_start(log_start_offset)
            case InstallSnapshot(snapshot_id=snapshot_id, data=data):
                store.install_snapshot(snapshot_id, data)
            case DropSnapshots(end_offset=end_offset):
                store.drop_snapshots(end_offset)
            case Truncate(end_offset=end_offset):
                store.truncate(end_offset)
            case _:
                assert_never(effect)

    def _look(self, effect: ApplyRetention | ReadLog | FindBatch | ScanProducers) -> StorageReport | None:
        name = effect.range.topic_partition if isinstance(effect, ReadLog) else effect.topic_partition
        store = self._store(name)
        match effect:
            case ApplyRetention():
                return self._apply_retention(effect)
            case ReadLog(range=log_range):
                return self._read_log(log_range)
            case FindBatch(offset=offset):
                return BatchFound(topic_partition=name, offset=offset, base_offset=store.batch_start(offset))
            case ScanProducers():
                return ProducersScanned(topic_partition=name, producers=store.scan_producers())
            case _:
                assert_never(effect)

    def _close(self, name: TopicPartition) -> None:
        store = self._stores.pop(name, None)
        if store is not None:  # One that was damaged when the table was opened has none.
            store.close(clean=False)

    def _create(self, effect: CreateLog) -> None:
        name, late_files = effect.topic_partition, LateFiles(self.directory.files)
        self.directory.create_log(name, effect.topic_id, late_files)
        self._stores[name], _ = LogStore.open(
            self.directory, name, config=self.config, rules=self._rules, late_files=late_files
        )

    def _apply_retention(self, effect: ApplyRetention) -> LogStartMoved | None:
        store = self._store(effect.topic_partition)
        start_offset = store.retention_start(
            effect.high_watermark, effect.retention_ms, effect.retention_bytes, effect.unix_ms
        )
        if start_offset <= store.log_start_offset:
            return None
        return LogStartMoved(topic_partition=effect.topic_partition, log_start_offset=start_offset)

    def _read_log(self, log_range: LogRange) -> LogRead:
        records = self._store(log_range.topic_partition).read(
            log_range.start_offset, log_range.end_offset, log_range.max_bytes
        )
        return LogRead(topic_partition=log_range.topic_partition, start_offset=log_range.start_offset, records=records)

    def _with_records(self, reply: ReplyWithRecords) -> Answer:
        damage: list[Loss] = []

        def read(log: TopicPartition, start_offset: Offset, end_offset: Offset, max_bytes: int) -> bytes | None:
            try:
                return self._store(log).read(start_offset, end_offset, max_bytes)
            except (DamagedLogError, FailedDirectoryError) as error:
                damage.append(error)
            except OutOfDescriptorsError:
                pass  # It is this answer's error alone.
            return None

        records = read_ranges(reply, read)
        return Answer(
            response=reply.response.with_records(records),
            records={log: data for log, data in records.items() if data is not None},
            damage=tuple(damage),
        )

    def _with_offset(self, reply: ReplyWithOffset) -> Answer:
        """Answer a question for the first offset not older than a time."""
        try:
            found = self._store(reply.topic_partition).offset_for_timestamp(reply.timestamp_ms, reply.end_offset)
        except (DamagedLogError, FailedDirectoryError, OutOfDescriptorsError) as error:
            damage = () if isinstance(error, OutOfDescriptorsError) else (error,)
            return Answer(response=ListOffsetsResponse(error=ErrorCode.KAFKA_STORAGE_ERROR), damage=damage)
        if found is None:
            return Answer(response=reply.response)
        return Answer(response=replace(reply.response, offset=found[0], leader_epoch=found[1]))

    # --- from time to time, and in the end --------------------------------------------------------------------------

    # All of these block on the disk, and are for another thread. They pass over logs that are damaged, and those in a
    # log directory that has failed; one that fails just then ends them by FailedDirectoryError, until the next time.

    def _usable(self) -> Iterator[LogStore]:
        return (store for name, store in tuple(self._stores.items()) if not self.directory.is_failed(name))

    def flush(self) -> None:
        """Flush every log."""
        for store in self._usable():
            store.flush()

    def checkpoint_recovery_points(self) -> None:
        """Note how far each log is known to be flushed."""
        for store in self._usable():
            store.note_recovery_point()
        self.directory.store_checkpoints()

    def checkpoint_log_starts(self) -> None:
        """Note where each log begins."""
        for store in self._usable():
            store.note_log_start()
        self.directory.store_checkpoints()

    def free_deleted(self, now_ms: int, *, file_delete_delay_ms: int) -> None:
        """Remove the files of what was deleted, once they were first looked at that long ago."""
        self.directory.delete_expired(now_ms, file_delete_delay_ms=file_delete_delay_ms)

    def close_clean(self, broker_epoch: BrokerEpoch | None = None) -> None:
        """Flush everything, leave the marker of a clean stop, and unlock the directory."""
        for store in self._usable():
            with suppress(FailedDirectoryError):  # The others are left as cleanly as if it had failed a moment before.
                store.flush()
                _close_cleanly(store)
        for store in self._stores.values():
            store.close(clean=False)
        self.directory.close(clean=True, broker_epoch=broker_epoch)
        self._is_open = False

    def abandon(self) -> None:
        """Close without any promise, as after a failure; does nothing after ``close_clean``."""
        if self._is_open:
            self._is_open = False
            for store in self._stores.values():
                store.close(clean=False)
            self.directory.close(clean=False)


def _close_cleanly(store: LogStore) -> None:
    """Close a log; one that is damaged without any promise, so that the next start searches all."""
    with suppress(DamagedLogError):  # It is read for its producers; its files are given back all the same.
        store.close(clean=not store.is_damaged)


def _damaged(directory: DataDirectory, name: TopicPartition, reason: str) -> RecoveredLog:
    """What is known of a partition's log that is damaged: perhaps whose it is."""
    topic_id = None
    with suppress(OSError, CorruptCheckpointError):
        topic_id = read_partition_metadata(directory.files, directory.log_path(name) / METADATA_FILE)
    return RecoveredLog(
        log_start_offset=Offset(0), log_end_offset=Offset(0), epochs=(), topic_id=topic_id, damage=reason
    )


def _check_owned(directory: DataDirectory, names: Iterable[TopicPartition]) -> None:
    """Refuse a log that is there and is no partition's. A log whose directory is gone is refused by its recovery."""
    for name in names:
        path = directory.log_path(name)
        if _look(path, lambda path: directory.files.exists(path) and not holds_partition(directory.files, path)):
            raise StorageError(
                f"{path} is a log of no partition (it has no partition.metadata), and of no quorum that this replica "
                f"is of: start the replica with --group {name.topic}=MACHINE if that is its group; or else move that "
                f"folder away, and take its line out of {directory.path / RECOVERY_POINT_FILE}, whose second line "
                "counts the lines below it"
            )


def _check_free(
    directory: DataDirectory, quorum_logs: Iterable[TopicPartition], held: Iterable[TopicPartition]
) -> None:
    """Refuse a quorum log whose name is a topic's of which this directory holds a partition."""
    topics = {
        name.topic: path
        for name in held
        if _look(path := directory.log_path(name), lambda path: holds_partition(directory.files, path))
    }
    for name in quorum_logs:
        if name.topic in topics:
            path = topics[name.topic]
            raise StorageError(
                f"{path} is a partition of topic {name.topic}, so that no group can have that name: "
                "choose another with --group, or delete the topic"
            )


def _look(path: Path, question: Callable[[Path], bool]) -> bool:
    try:
        return question(path)
    except OSError as error:
        raise StorageError(f"cannot look at log {path}: {error}") from error
