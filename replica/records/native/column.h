/* A column of bytes, laid out as Apache Arrow has it, of which no offset is believed. */

#ifndef HIGHWATER_COLUMN_H
#define HIGHWATER_COLUMN_H

#include "records.h"

#define COLUMN_FAULT "a column's offsets lead out of its data"

/* Bytes of `size`, of which those of row n stand between entries `first` + n and the next of `offsets`, of 64 bits if
 * `is_wide` and else of 32. Without `offsets` all rows are null, without `validity` none of the others is. */
struct column {
    const uint8_t *data;
    int64_t size;
    const void *offsets;
    const uint8_t *validity;
    int64_t first, is_wide;
};

static inline int64_t column_offset(const struct column *column, int64_t at)
{
    return column->is_wide ? ((const int64_t *)column->offsets)[at] : ((const int32_t *)column->offsets)[at];
}

/* Find the bytes of a row; `size` is -1 for null. Whether they are inside the column. */
static inline int column_find(const struct column *column, int64_t row, const uint8_t **data, int64_t *size)
{
    int64_t at = column->first + row;
    *size = -1;
    if (!column->offsets || (column->validity && !(column->validity[at >> 3] >> (at & 7) & 1)))
        return 1;
    int64_t begin = column_offset(column, at), end = column_offset(column, at + 1);
    if (begin < 0 || end < begin || end > column->size)
        return 0;
    *data = column->data + begin;
    *size = end - begin;
    return 1;
}

#endif
