/* The dictionary of one OTLP profiles packet: seven tables whose rows are referenced by index. A row is the encoded
 * message, so rows are deduplicated by comparing bytes, and row 0, without bytes, is the empty row that the format
 * requires. A row is added after all rows that it references. */
#pragma once

#include "base/buf.h"
#include "base/strings.h"
#include "lib/otlp/profile_fields.h"

#include <stddef.h>
#include <stdint.h>

struct otlp_dictionary {
    struct strings *rows[OTLP_TABLES];
    struct buf text;
    int error; /* first error; sticky */
};

/* Empties the tables and forgets the error; creates the tables the first time, when `d` is zeroed. 0 or -ENOMEM: `d`
 * can only be cleared or reset. */
int otlp_dictionary_reset(struct otlp_dictionary *d);
/* Frees the tables; otlp_dictionary_reset creates them again. */
void otlp_dictionary_clear(struct otlp_dictionary *d);

/* Returns the index of the row with the contents of `row`, adding it if needed; empties `row` for reuse. At most
 * INT32_MAX. Returns 0 and sets `error` on failure. */
uint32_t otlp_dictionary_put(struct otlp_dictionary *d, enum otlp_table table, struct buf *row);
/* Returns the index of `text`, converted to valid UTF-8. */
uint32_t otlp_dictionary_put_text(struct otlp_dictionary *d, const char *text);

/* Appends the ProfilesDictionary message. */
void otlp_dictionary_write(const struct otlp_dictionary *d, struct buf *out);
