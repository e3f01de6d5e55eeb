/* Records from columns, as record.py encodes them: what a producer hands over by the thousand.
 *
 * What Python calls, by ctypes: see encoding.py, which has the same structs. A column is laid out as Apache Arrow has it.
 * First as many records are measured as fit, then they are written. No offset is believed: nothing outside a column's
 * data is read, and nothing is written beyond what was measured. */

#include "column.h"

#include <string.h>

#define VARINT_BYTES_MAX 10
#define SIZE_MAX_32 INT32_MAX

/* What is to be encoded: the rows from `row` up to `stop`, or of `rows` those at these places. Headers are encoded
 * already, their count with them; null is none. Without `timestamps_ms` all records are of `base_timestamp_ms`, which
 * else is that of the first. No more than `limit_bytes` are taken but for the first record. Then what was measured. */
struct records_encode {
    struct column values, keys, headers;
    const int64_t *timestamps_ms, *rows;
    int64_t row, stop, limit_bytes;
    int64_t base_timestamp_ms, max_timestamp_ms, count, size;
};

/* One record, with the sizes of what it takes. */
struct parts {
    const uint8_t *key, *value, *headers;
    int64_t key_size, value_size, headers_size, timestamp_ms, body_size;
};

static uint64_t zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static int64_t varint_size(int64_t value)
{
    int64_t size = 1;
    for (uint64_t left = zigzag(value); left > 0x7F; left >>= 7)
        size++;
    return size;
}

static uint8_t *write_varint(uint8_t *out, int64_t value)
{
    uint64_t left = zigzag(value);
    for (; left > 0x7F; left >>= 7)
        *out++ = (uint8_t)(left | 0x80);
    *out++ = (uint8_t)left;
    return out;
}

static int64_t span_size(int64_t size)
{
    return varint_size(size) + (size > 0 ? size : 0);
}

static uint8_t *write_span(uint8_t *out, const uint8_t *data, int64_t size)
{
    out = write_varint(out, size);
    if (size > 0) {
        memcpy(out, data, (size_t)size);
        out += size;
    }
    return out;
}

static const char *take(const struct records_encode *job, int64_t place, struct parts *parts)
{
    int64_t row = job->rows ? job->rows[place] : place, delta;
    if (!column_find(&job->keys, row, &parts->key, &parts->key_size) ||
        !column_find(&job->values, row, &parts->value, &parts->value_size) ||
        !column_find(&job->headers, row, &parts->headers, &parts->headers_size))
        return COLUMN_FAULT;
    parts->timestamp_ms = job->timestamps_ms ? job->timestamps_ms[row] : job->base_timestamp_ms;
    if (__builtin_sub_overflow(parts->timestamp_ms, job->base_timestamp_ms, &delta))
        return "timestamps are too far from each other";
    parts->body_size = 1 + varint_size(delta) + varint_size(place - job->row) + span_size(parts->key_size) +
                       span_size(parts->value_size) + (parts->headers_size > 0 ? parts->headers_size : 1);
    return parts->body_size > SIZE_MAX_32 - VARINT_BYTES_MAX ? "a record is above 2 GiB" : NULL;
}

/* Measure the records that are encoded next; NULL, or what is wrong with the one behind the last that is well. */
EXPORTED const char *records_measure(struct records_encode *job)
{
    job->count = job->size = 0;
    if (job->timestamps_ms && job->row < job->stop)
        job->base_timestamp_ms = job->timestamps_ms[job->rows ? job->rows[job->row] : job->row];
    job->max_timestamp_ms = job->base_timestamp_ms;
    for (int64_t place = job->row; place < job->stop; place++) {
        struct parts parts;
        const char *fault = take(job, place, &parts);
        if (fault)
            return fault;
        int64_t size = varint_size(parts.body_size) + parts.body_size;
        if (job->count && job->size + size > job->limit_bytes)
            break;
        job->size += size;
        job->count++;
        if (parts.timestamp_ms > job->max_timestamp_ms)
            job->max_timestamp_ms = parts.timestamp_ms;
    }
    return NULL;
}

/* Write what was measured; whether it still takes as many bytes. */
EXPORTED int64_t records_encode(const struct records_encode *job, uint8_t *out)
{
    uint8_t *end = out + job->size;
    for (int64_t delta = 0; delta < job->count; delta++) {
        struct parts parts;
        if (take(job, job->row + delta, &parts) || varint_size(parts.body_size) + parts.body_size > end - out)
            return 0;
        out = write_varint(out, parts.body_size);
        *out++ = 0; /* attributes: no bit is in use */
        out = write_varint(out, parts.timestamp_ms - job->base_timestamp_ms);
        out = write_varint(out, delta);
        out = write_span(out, parts.key, parts.key_size);
        out = write_span(out, parts.value, parts.value_size);
        if (parts.headers_size > 0) {
            memcpy(out, parts.headers, (size_t)parts.headers_size);
            out += parts.headers_size;
        } else {
            *out++ = 0;
        }
    }
    return out == end;
}
