/* The records of batches as columns, laid out as Apache Arrow has them: what a consumer gets without an object for each.
 *
 * What Python calls, by ctypes: see columns.py, which has the same structs. First each batch is measured, which finds
 * every fault that record.py finds, at the same byte; then columns that are large enough are filled, of one batch after
 * the other. Nothing behind `end` is read, and nothing is written beyond what was measured. */

#include "records.h"

#include <string.h>

/* One batch: the first line is given, and of its records only those from delta `start` on are wanted. `append_time_ms` is
 * the time of all of them if `has_append_time`. Then what was measured: where the fault is, and what is wanted. */
struct columns_batch {
    int64_t count, start, base_offset, epoch, base_timestamp_ms, has_append_time, append_time_ms;
    int64_t position, rows, key_bytes, value_bytes, headers, name_bytes, content_bytes;
};

/* A column of bytes: `room` in `data`, of which `size` are used, and of `rows` so far where each ends. */
struct strings {
    uint8_t *data, *validity;
    int32_t *ends;
    int64_t room, size, rows, nulls;
};

/* `rows` of `room` are filled. The headers of a row are those up to `header_ends` of names and contents. */
struct columns {
    int64_t *offsets, *timestamps_ms;
    int32_t *epochs, *header_ends;
    int64_t room, rows, header_room;
    struct strings keys, values, names, contents;
};

static int64_t size_of(struct span span)
{
    return span.size > 0 ? span.size : 0;
}

static void measure(struct columns_batch *batch, const uint8_t *data, int64_t end, const struct record *record)
{
    struct cursor headers = {data, record->headers_at, end};
    batch->rows++;
    batch->key_bytes += size_of(record->key);
    batch->value_bytes += size_of(record->value);
    batch->headers += record->headers;
    for (int64_t left = record->headers; left > 0; left--) {
        struct span name, content;
        if (read_span(&headers, "", &name) || read_span(&headers, "", &content))
            return;
        batch->name_bytes += size_of(name);
        batch->content_bytes += size_of(content);
    }
}

/* Measure a batch that stands from `start` to `end` of `data`; NULL if its records are well, else what is wrong. */
EXPORTED const char *columns_measure(const uint8_t *data, int64_t start, int64_t end, struct columns_batch *batch)
{
    struct cursor whole = {data, start, end};
    batch->rows = batch->key_bytes = batch->value_bytes = 0;
    batch->headers = batch->name_bytes = batch->content_bytes = 0;
    for (int64_t delta = 0; delta < batch->count; delta++) {
        struct record record;
        const char *fault = read_record(&whole, delta, batch->base_timestamp_ms, &record);
        batch->position = whole.at;
        if (fault)
            return fault;
        if (delta >= batch->start)
            measure(batch, data, whole.at, &record);
    }
    batch->position = whole.at;
    return whole.at == end ? NULL : "trailing bytes behind the last record";
}

/* Append bytes, or null; whether there is room for them. */
static int append(struct strings *column, const uint8_t *data, struct span span)
{
    int64_t size = size_of(span);
    if (size > column->room - column->size)
        return 0;
    if (size)
        memcpy(column->data + column->size, data + span.at, (size_t)size);
    if (span.size >= 0)
        column->validity[column->rows >> 3] |= (uint8_t)(1 << (column->rows & 7));
    else
        column->nulls++;
    column->size += size;
    column->ends[column->rows++] = (int32_t)column->size;
    return 1;
}

static int append_headers(struct columns *into, const uint8_t *data, int64_t end, const struct record *record)
{
    struct cursor headers = {data, record->headers_at, end};
    for (int64_t left = record->headers; left > 0; left--) {
        struct span name, content;
        if (into->names.rows >= into->header_room || read_span(&headers, "", &name) ||
            read_span(&headers, "", &content) || !append(&into->names, data, name) ||
            !append(&into->contents, data, content))
            return 0;
    }
    return 1;
}

/* Fill the columns behind what they have with a batch that was measured; whether there was room for all of it. */
EXPORTED int64_t columns_fill(
    const uint8_t *data, int64_t start, int64_t end, const struct columns_batch *batch, struct columns *into)
{
    struct cursor whole = {data, start, end};
    for (int64_t delta = 0; delta < batch->count; delta++) {
        struct record record;
        if (read_record(&whole, delta, batch->base_timestamp_ms, &record))
            return 0;
        if (delta < batch->start)
            continue;
        if (into->rows >= into->room || !append(&into->keys, data, record.key) ||
            !append(&into->values, data, record.value) || !append_headers(into, data, whole.at, &record))
            return 0;
        into->offsets[into->rows] = batch->base_offset + delta;
        into->timestamps_ms[into->rows] = batch->has_append_time ? batch->append_time_ms : record.timestamp_ms;
        into->epochs[into->rows] = (int32_t)batch->epoch;
        into->header_ends[into->rows++] = (int32_t)into->names.rows;
    }
    return 1;
}
