/* Texts in folded stacks. */
#pragma once

#include "base/buf.h"

/* The format has no escapes: what would end a frame or a line is replaced, as flamegraph.pl's own collapsers do. */
void folded_put_text(struct buf *b, const char *text);
