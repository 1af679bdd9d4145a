/* Names the user's own native code by its debug information: the function, which may have been inlined into another
 * one, its source file and line. */
#pragma once

#include "model/frame.h"

#include <stdbool.h>
#include <stddef.h>

struct native_lines;
struct native_place;

/* Completes the innermost frame of the user's own code if it is native. Strings are borrowed from `n` until its next
 * call. Returns false if the line is still looked up: the frame is unchanged, and the caller may try again later. */
bool own_lines_add(struct native_lines *n, struct frame *frames, size_t count);

/* Copies function, file and line of the innermost function of `place` that is the user's own to `frame`. */
void own_lines_choose(const struct native_place *place, struct frame *frame);
