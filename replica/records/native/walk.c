/* One walk over the records of a batch, as record.py reads them: is each where it says, and when was it written?
 *
 * What Python calls, by ctypes: see walking.py, which has the same struct. Nothing is copied, nothing is allocated, and
 * nothing behind `end` is read. Every fault that record.py finds is found here, at the same byte, and no other. */

#include "records.h"

#define ABI_VERSION 3
#define NO_TIMESTAMP (-1)

/* The first line is given. `position` is where the walk has ended, or where the fault is;
 * `oldest_ms` leaves out records without a timestamp and is -1 if none has one; `first` is the delta of the first record
 * at `wanted_ms` or later, from delta `wanted_from` on, and -1 if there is none. */
struct records_walk {
    int64_t count, base_timestamp_ms, wanted_ms, wanted_from;
    int64_t position, oldest_ms, newest_ms, first;
};

/* Read an unsigned number of at most `bits` bits; whether it is one. The cursor stays where it is if not. */
static int read_unsigned(struct cursor *cursor, int bits, uint64_t *value)
{
    uint64_t read = 0;
    int64_t at = cursor->at;
    for (int shift = 0; shift < bits && at < cursor->end; shift += 7) {
        uint64_t byte = cursor->data[at++], seven = byte & 0x7F;
        if (shift + 7 > bits && seven >> (bits - shift))
            return 0;
        read |= seven << shift;
        if (byte < 0x80) {
            cursor->at = at;
            *value = read;
            return 1;
        }
    }
    return 0;
}

int read_zigzag(struct cursor *cursor, int bits, int64_t *value)
{
    uint64_t read;
    if (!read_unsigned(cursor, bits, &read))
        return 0;
    *value = (int64_t)(read >> 1) ^ -(int64_t)(read & 1);
    return 1;
}

const char *read_span(struct cursor *cursor, const char *fault, struct span *span)
{
    int64_t at = cursor->at;
    if (!read_zigzag(cursor, 32, &span->size))
        return "a length is no varint of 32 bits";
    if (span->size < -1 || span->size > cursor->end - cursor->at) {
        cursor->at = at;
        return fault;
    }
    span->at = cursor->at;
    if (span->size > 0)
        cursor->at += span->size;
    return NULL;
}

/* Whether `size` bytes are UTF-8 as Python decodes it: shortest forms only, no surrogates, nothing above U+10FFFF. */
static int is_utf8(const uint8_t *text, int64_t size)
{
    for (int64_t at = 0; at < size;) {
        uint8_t lead = text[at++];
        int more = lead < 0x80 ? 0 : lead < 0xC2 ? -1 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : lead < 0xF5 ? 3 : -1;
        uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if (more < 0 || more > size - at)
            return 0;
        for (; more > 0; more--, low = 0x80, high = 0xBF) {
            uint8_t byte = text[at++];
            if (byte < low || byte > high)
                return 0;
        }
    }
    return 1;
}

static const char *read_headers(struct cursor *cursor, struct record *record)
{
    const char *fault;
    struct span span;
    int64_t at = cursor->at;
    if (!read_zigzag(cursor, 32, &record->headers))
        return "the count of headers is no varint of 32 bits";
    if (record->headers < 0 || record->headers > cursor->end - cursor->at) {
        cursor->at = at;
        return "more headers than the record has bytes left";
    }
    record->headers_at = cursor->at;
    for (int64_t left = record->headers; left > 0; left--) {
        at = cursor->at;
        fault = read_span(cursor, "a header name is longer than what is left of the record", &span);
        if (fault)
            return fault;
        if (span.size < 0 || !is_utf8(cursor->data + span.at, span.size)) {
            cursor->at = at;
            return span.size < 0 ? "a header without a name" : "a header name is not UTF-8";
        }
        fault = read_span(cursor, "a header value is longer than what is left of the record", &span);
        if (fault)
            return fault;
    }
    return NULL;
}

/* Read what is behind a record's length; the cursor ends where the record does. */
static const char *read_body(struct cursor *cursor, int64_t delta, int64_t base_timestamp_ms, struct record *record)
{
    int64_t start = cursor->at, at, timestamp_delta, offset_delta;
    const char *fault;
    if (start == cursor->end)
        return "an empty record";
    cursor->at++;
    if (!read_zigzag(cursor, 64, &timestamp_delta))
        return "a timestamp delta is no varint of 64 bits";
    at = cursor->at;
    if (!read_zigzag(cursor, 32, &offset_delta))
        return "an offset delta is no varint of 32 bits";
    if (offset_delta != delta) {
        cursor->at = at;
        return "an offset delta is not the one that is due";
    }
    if (__builtin_add_overflow(base_timestamp_ms, timestamp_delta, &record->timestamp_ms)) {
        cursor->at = start + 1;
        return "a timestamp delta leads out of 64 bits";
    }
    if ((fault = read_span(cursor, "a key is longer than what is left of the record", &record->key)))
        return fault;
    if ((fault = read_span(cursor, "a value is longer than what is left of the record", &record->value)))
        return fault;
    if ((fault = read_headers(cursor, record)))
        return fault;
    return cursor->at == cursor->end ? NULL : "trailing bytes inside a record";
}

const char *read_record(struct cursor *whole, int64_t delta, int64_t base_timestamp_ms, struct record *record)
{
    int64_t length, at = whole->at;
    if (!read_zigzag(whole, 32, &length))
        return "a record's length is no varint of 32 bits";
    if (length < 0 || length > whole->end - whole->at) {
        whole->at = at;
        return "a record is longer than what is left of the batch";
    }
    struct cursor inside = {whole->data, whole->at, whole->at + length};
    const char *fault = read_body(&inside, delta, base_timestamp_ms, record);
    whole->at = inside.at;
    return fault;
}

static void note(struct records_walk *walk, int64_t delta, int64_t timestamp_ms)
{
    if (delta == 0 || timestamp_ms > walk->newest_ms)
        walk->newest_ms = timestamp_ms;
    if (timestamp_ms != NO_TIMESTAMP && (walk->oldest_ms == NO_TIMESTAMP || timestamp_ms < walk->oldest_ms))
        walk->oldest_ms = timestamp_ms;
    if (walk->first < 0 && delta >= walk->wanted_from && timestamp_ms >= walk->wanted_ms)
        walk->first = delta;
}

EXPORTED int64_t records_walk_abi(void)
{
    return ABI_VERSION;
}

/* Walk over `walk->count` records from `start` to `end` of `data`; NULL if they are well, else what is wrong. */
EXPORTED const char *records_walk(const uint8_t *data, int64_t start, int64_t end, struct records_walk *walk)
{
    struct cursor whole = {data, start, end};
    walk->oldest_ms = walk->newest_ms = NO_TIMESTAMP;
    walk->first = -1;
    for (int64_t delta = 0; delta < walk->count; delta++) {
        struct record record;
        const char *fault = read_record(&whole, delta, walk->base_timestamp_ms, &record);
        if (fault) {
            walk->position = whole.at;
            return fault;
        }
        note(walk, delta, record.timestamp_ms);
    }
    walk->position = whole.at;
    return whole.at == end ? NULL : "trailing bytes behind the last record";
}
