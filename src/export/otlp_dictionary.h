/* The dictionary of one packet of OTLP profiles: seven tables of rows that samples refer to by number. A row
 * is the encoded message itself, so that two rows are one exactly when their bytes are equal, and row 0, of
 * no bytes, is the format's empty one by itself. A row is put after all that it refers to. */
#pragma once

#include "base/buf.h"
#include "base/strings.h"

#include <stddef.h>
#include <stdint.h>

enum otlp_table { /* values: field numbers of ProfilesDictionary */
                  OTLP_MAPPING = 1,
                  OTLP_LOCATION,
                  OTLP_FUNCTION,
                  OTLP_LINK,
                  OTLP_STRING,
                  OTLP_ATTRIBUTE,
                  OTLP_STACK,
};

#define OTLP_TABLES 7

struct otlp_dictionary {
    struct strings *rows[OTLP_TABLES];
    struct buf text;
    int error; /* the first; it sticks */
};

/* Empty tables; also in place of those that are there. -ENOMEM. */
int otlp_dictionary_reset(struct otlp_dictionary *d);
void otlp_dictionary_clear(struct otlp_dictionary *d);

/* The number of the row with the contents of `row`, which is emptied for the next one. Never one past
 * INT32_MAX. */
uint32_t otlp_dictionary_put(struct otlp_dictionary *d, enum otlp_table table, struct buf *row);
/* In UTF-8, whatever it was. */
uint32_t otlp_dictionary_put_text(struct otlp_dictionary *d, const char *text);

/* ProfilesDictionary. */
void otlp_dictionary_write(const struct otlp_dictionary *d, struct buf *out);
