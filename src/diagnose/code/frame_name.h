/* Names from untrusted files as text. */
#pragma once

#include "model/frame.h"

#include <stddef.h>

/* Copy a text, or a frame's name, with invalid bytes and control characters replaced; a text longer than `size` is cut
 * and ends in "...". Return `out`. */
const char *frame_name_printable(const char *text, char *out, size_t size);
const char *frame_name_text(const struct frame *f, char *out, size_t size);
