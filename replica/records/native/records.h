/* What the walks over records share: a cursor that never reads behind its end, and one record as it stands in a batch. */

#ifndef HIGHWATER_RECORDS_H
#define HIGHWATER_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

struct cursor {
    const uint8_t *data;
    int64_t at, end;
};

/* Where bytes stand; `size` is -1 for null. */
struct span {
    int64_t at, size;
};

/* One record. Its headers begin at `headers_at`, behind their count. */
struct record {
    int64_t timestamp_ms;
    struct span key, value;
    int64_t headers, headers_at;
};

/* Read a number in zigzag of at most `bits` bits; whether it is one. The cursor stays where it is if not. */
int read_zigzag(struct cursor *cursor, int bits, int64_t *value);

/* Read a length and step over as many bytes. The cursor stays where it is at a fault. */
const char *read_span(struct cursor *cursor, const char *fault, struct span *span);

/* Read a record's length, and then what is behind it: the cursor ends behind the record, or where the fault is. */
const char *read_record(struct cursor *whole, int64_t delta, int64_t base_timestamp_ms, struct record *record);

#endif
