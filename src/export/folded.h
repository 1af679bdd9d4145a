/* Escaping for folded stacks. */
#pragma once

#include "base/buf.h"

/* Appends `text` with the characters that end a frame or a line replaced, as flamegraph.pl's collapsers do: the format
 * has no escapes. */
void folded_put_text(struct buf *b, const char *text);
