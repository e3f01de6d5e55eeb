/* Which partition each row of a column of keys goes to: Kafka's hash, and the rows of each partition together.
 *
 * What Python calls, by ctypes: see client/partitioner.py. The hash is MurmurHash2 by Austin Appleby (public domain), as
 * Python has it there. */

#include "column.h"

static uint32_t mixed(uint32_t word)
{
    word *= 0x5BD1E995;
    word ^= word >> 24;
    return word * 0x5BD1E995;
}

static uint32_t murmur2(const uint8_t *data, int64_t size)
{
    uint32_t hash = 0x9747B28C ^ (uint32_t)size;
    int64_t whole = size & ~(int64_t)3;
    for (int64_t at = 0; at < whole; at += 4) {
        uint32_t word = data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16 |
                        (uint32_t)data[at + 3] << 24;
        hash = hash * 0x5BD1E995 ^ mixed(word);
    }
    if (whole < size) {
        for (int64_t at = size - 1; at >= whole; at--)
            hash ^= (uint32_t)data[at] << 8 * (at - whole);
        hash *= 0x5BD1E995;
    }
    hash ^= hash >> 13;
    hash *= 0x5BD1E995;
    return hash ^ hash >> 15;
}

/* Sort `count` rows by where their keys lead, in order within each of `partitions`; those without key go to `keyless`.
 * Partition by partition, `rows` has them up to each of `ends`; `places` is where the work is done. NULL, or what is
 * wrong. */
EXPORTED const char *keys_partition(const struct column *keys, int64_t count, int64_t partitions, int64_t keyless,
    int32_t *places, int64_t *rows, int64_t *ends)
{
    for (int64_t partition = 0; partition < partitions; partition++)
        ends[partition] = 0;
    for (int64_t row = 0; row < count; row++) {
        const uint8_t *key;
        int64_t size;
        if (!column_find(keys, row, &key, &size))
            return COLUMN_FAULT;
        places[row] = (int32_t)(size < 0 ? keyless : (murmur2(key, size) & 0x7FFFFFFF) % partitions);
        ends[places[row]]++;
    }
    for (int64_t partition = 1; partition < partitions; partition++)
        ends[partition] += ends[partition - 1];
    for (int64_t row = count - 1; row >= 0; row--)
        rows[--ends[places[row]]] = row;
    for (int64_t partition = 0; partition < partitions; partition++)
        ends[partition] = partition + 1 < partitions ? ends[partition + 1] : count;
    return NULL;
}
