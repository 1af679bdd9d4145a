/* Escaping of strings with arbitrary bytes from a trace file. */
#pragma once

#include "base/buf.h"
#include "trace/model/triton_trace.h"

/* For a terminal: invalid UTF-8 becomes U+FFFD, a control character \xNN or \uNNNN; truncated after 1024 bytes. */
void triton_text_put_shown(struct buf *out, struct triton_text text);

/* As a valid JSON string; NUL becomes SUBSTITUTE, U+001A. */
void triton_text_put_json(struct buf *out, struct triton_text text);

/* As plain text; invalid UTF-8 becomes U+FFFD. */
void triton_text_put_utf8(struct buf *out, struct triton_text text);
