/* Values in ClickHouse's RowBinary format: a row is its columns' values one after the other. Errors stick in the
 * buffer. */
#pragma once

#include "base/buf.h"
#include "base/cursor.h"

#include <stdint.h>

/* The number of elements of an array or a map, or of bytes of a string. */
void row_put_count(struct buf *row, uint64_t count);
void row_put_u8(struct buf *row, uint8_t value);
/* Also a Date, in days since 1970. */
void row_put_u16(struct buf *row, uint16_t value);
void row_put_u32(struct buf *row, uint32_t value);
/* Also DateTime64(9), in Unix nanoseconds. */
void row_put_u64(struct buf *row, uint64_t value);
void row_put_double(struct buf *row, double value);
/* A string that need not be UTF-8: other bytes become U+FFFD. */
void row_put_text(struct buf *row, struct cursor text);
/* A string of the program itself. */
void row_put_name(struct buf *row, const char *name);
/* Bytes as hexadecimal text, such as the id of a trace. */
void row_put_hex(struct buf *row, struct cursor bytes);

/* Length in bytes of the valid UTF-8 sequence at the beginning of `text`; 0: it begins with an invalid one. */
size_t row_utf8_length(const uint8_t *text, size_t size);
