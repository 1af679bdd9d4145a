/* What an answer about requests lacks, for people: why it is empty, or incomplete, and what could not be read. */
#pragma once

#include "base/buf.h"
#include "model/coverage.h"

/* Appends the sentence about an overloaded node; nothing where it is not. */
void coverage_text_put_overload(const struct coverage *c, struct buf *out);

/* Appends what stands in place of an empty table: what that means, why, and the traffic that could not be read. */
void coverage_text_put_nothing(const struct coverage *c, enum coverage_subject subject, struct buf *out);
/* Below a table: logs the missing data, and appends one line of the traffic that could not be read. */
void coverage_text_put_rest(const struct coverage *c, struct buf *out);
/* Appends the traffic that could not be read as a table, each line after `indent`; nothing if there was none. */
void coverage_text_put_ports(const struct coverage *c, const char *indent, struct buf *out);
