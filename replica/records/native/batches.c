/* One walk over the batches of a log, as recovery needs them: as many as plainly follow one another.
 *
 * What Python calls, by ctypes: see runs.py, which has the same struct. It never says what is wrong with a batch, nor
 * that one is: it stops in front of each that is not plain, and Python looks at that one. Nothing behind
 * `end` is read. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))
#if defined(__x86_64__) && !defined(CRC_BY_TABLES)
#define HAS_CRC 1 /* perhaps: the processor says so */
#endif
#define MAGIC 2
#define HEADER_BYTES 61
#define RECORD_BYTES_MIN 7
#define PRODUCERS 4096
#define BATCHES_KEPT 5
#define EVER INT64_MIN

/* The last batches of one producer in one epoch, the oldest at `count % BATCHES_KEPT`. */
struct producer {
    int64_t id;
    int32_t epoch;
    uint32_t count, positions[BATCHES_KEPT];
};

/* `position` and what is kept count from `data`, which stands at `file_position` of a segment that begins at
 * `base_offset`. A mark is a batch `mark_bytes` or more behind the one before; `newest_ms` is of what lies between two,
 * and `open_ms` of what comes behind the last. Those kept are of idempotent producers: of each the last five at least. */
struct batches_walk {
    int64_t file_position, base_offset, batch_bytes_max, decompressed_bytes_max, mark_bytes, epoch, stop_offset;
    int64_t keeps_producers, room;
    int64_t position, next_offset, marked_position, open_ms, marks, kept;
    uint32_t *mark_offsets, *mark_positions;
    int64_t *newest_ms;
    uint32_t *kept_positions;
};

static uint64_t big_endian(const uint8_t *data, int bytes)
{
    uint64_t value = 0;
    for (int at = 0; at < bytes; at++)
        value = value << 8 | data[at];
    return value;
}

/* CRC-32C by eight tables: eight bytes at a time. */
static uint32_t tables[8][256];

__attribute__((constructor)) static void make_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
        tables[0][byte] = crc;
    }
    for (int table = 1; table < 8; table++)
        for (int byte = 0; byte < 256; byte++)
            tables[table][byte] = tables[table - 1][byte] >> 8 ^ tables[0][tables[table - 1][byte] & 0xFF];
}

static uint32_t crc_by_tables(const uint8_t *data, int64_t size)
{
    uint32_t crc = ~0u;
    for (; size >= 8; size -= 8, data += 8) {
        uint8_t mixed[4];
        for (int at = 0; at < 4; at++)
            mixed[at] = data[at] ^ crc >> 8 * at;
        crc = tables[7][mixed[0]] ^ tables[6][mixed[1]] ^ tables[5][mixed[2]] ^ tables[4][mixed[3]] ^
              tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]] ^ tables[0][data[7]];
    }
    for (; size > 0; size--)
        crc = crc >> 8 ^ tables[0][(crc ^ *data++) & 0xFF];
    return ~crc;
}

#if HAS_CRC
__attribute__((target("sse4.2"))) static uint32_t crc_by_processor(const uint8_t *data, int64_t size)
{
    uint64_t crc = ~0u;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t eight;
        memcpy(&eight, data, 8);
        crc = __builtin_ia32_crc32di(crc, eight);
    }
    for (; size > 0; size--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#endif

static int is_right(const uint8_t *data, int64_t size, uint32_t crc)
{
#if HAS_CRC
    if (__builtin_cpu_supports("sse4.2"))
        return crc_by_processor(data, size) == crc;
#endif
    return crc_by_tables(data, size) == crc;
}

/* Whether attributes are such as most batches have: a codec that is known, and perhaps the time of the append. */
static int are_plain(uint64_t attributes)
{
    uint64_t codec = attributes & 0x07;
    return !(attributes & ~(uint64_t)0x0F) && (codec == 0 || codec == 3 || codec == 4);
}

/* The size of the batch at `data`, of which `room` bytes are there, if it plainly continues the log; else 0. */
static int64_t plain_size(const struct batches_walk *walk, const uint8_t *data, int64_t room)
{
    if (room < HEADER_BYTES)
        return 0;
    int64_t size = (int64_t)(int32_t)big_endian(data + 8, 4) + 12, count = (int32_t)big_endian(data + 57, 4);
    uint64_t attributes = big_endian(data + 21, 2);
    int64_t records_bytes = attributes & 0x07 ? walk->decompressed_bytes_max : size - HEADER_BYTES;
    int is_plain = size >= HEADER_BYTES && size <= room && size <= walk->batch_bytes_max && data[16] == MAGIC &&
                   (int64_t)big_endian(data, 8) == walk->next_offset && are_plain(attributes) &&
                   (int32_t)big_endian(data + 12, 4) == walk->epoch && count >= 1 &&
                   (int32_t)big_endian(data + 23, 4) == count - 1 && count <= walk->stop_offset - walk->next_offset &&
                   count * RECORD_BYTES_MIN <= records_bytes && walk->next_offset - walk->base_offset <= UINT32_MAX &&
                   walk->file_position + walk->position <= UINT32_MAX &&
                   is_right(data + 21, size - 21, (uint32_t)big_endian(data + 17, 4));
    return is_plain ? size : 0;
}

/* Note a batch as the indexes do: the first of an interval closes the one before. */
static void mark(struct batches_walk *walk, const uint8_t *data)
{
    int64_t position = walk->file_position + walk->position, max_timestamp_ms = (int64_t)big_endian(data + 35, 8);
    if (position - walk->marked_position >= walk->mark_bytes) {
        walk->mark_offsets[walk->marks] = (uint32_t)(walk->next_offset - walk->base_offset);
        walk->mark_positions[walk->marks] = (uint32_t)position;
        walk->newest_ms[walk->marks++] = walk->open_ms;
        walk->marked_position = position;
        walk->open_ms = EVER;
    }
    if (max_timestamp_ms > walk->open_ms)
        walk->open_ms = max_timestamp_ms;
}

static void hand_over(struct batches_walk *walk, struct producer *producer)
{
    uint32_t held = producer->count < BATCHES_KEPT ? producer->count : BATCHES_KEPT;
    for (uint32_t at = 0; at < held; at++)
        walk->kept_positions[walk->kept++] = producer->positions[at];
    producer->count = 0;
}

/* Keep a batch of an idempotent producer, in the place of one that five of the same producer and epoch come behind. */
static void keep(struct batches_walk *walk, struct producer *producers, const uint8_t *data)
{
    int64_t id = (int64_t)big_endian(data + 43, 8);
    int32_t epoch = (int16_t)big_endian(data + 51, 2);
    if (id < 0 || (int32_t)big_endian(data + 53, 4) < 0)
        return;
    struct producer *producer = &producers[id % PRODUCERS];
    if (producer->count && (producer->id != id || producer->epoch != epoch))
        hand_over(walk, producer);
    producer->id = id;
    producer->epoch = epoch;
    producer->positions[producer->count++ % BATCHES_KEPT] = (uint32_t)walk->position;
}

/* Walk on from `walk->position` over what of `data` is plain. There is room for what `walk->room` batches leave. */
EXPORTED void batches_walk(const uint8_t *data, int64_t end, struct batches_walk *walk)
{
    struct producer *producers = calloc(PRODUCERS, sizeof *producers);
    walk->marks = walk->kept = 0;
    for (int64_t size; producers && walk->room > 0; walk->room--, walk->position += size) {
        const uint8_t *batch = data + walk->position;
        size = plain_size(walk, batch, end - walk->position);
        if (!size)
            break;
        mark(walk, batch);
        if (walk->keeps_producers)
            keep(walk, producers, batch);
        walk->next_offset += (int64_t)big_endian(batch + 57, 4);
    }
    for (int slot = 0; producers && slot < PRODUCERS; slot++)
        hand_over(walk, &producers[slot]);
    free(producers);
}
