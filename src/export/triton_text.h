/* Texts of unknown bytes out of a trace file, made fit for where they go. */
#pragma once

#include "base/buf.h"
#include "model/triton_trace.h"

/* For a terminal: what is no UTF-8 becomes U+FFFD, a control character \xNN; cut after 1024 bytes. */
void triton_text_put_shown(struct buf *out, struct triton_text text);

/* As a JSON string, always a valid one; a NUL becomes SUBSTITUTE, U+001A. */
void triton_text_put_json(struct buf *out, struct triton_text text);

/* What is no UTF-8 becomes U+FFFD. */
void triton_text_put_utf8(struct buf *out, struct triton_text text);
