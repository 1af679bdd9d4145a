/* Removes from a window what is of no request: on a connection of HTTP/2, both ends also send frames that keep up the
 * connection (RECORDER_CONTROL), in whichever thread they like. gRPC's library sends pings, and answers them, while a
 * call waits. */
#pragma once

#include "model/flight_window.h"

#include <stdbool.h>

/* Whether the window has such records. */
bool control_frames_are_in(const struct flight_window *window);

/* Copies the window without the sends and receives of control frames, and without the arrivals that such receives read.
 * The caller frees `*ret_records`, which `ret` refers to. -ENOMEM. */
int control_frames_remove(const struct flight_window *window, struct flight_window *ret,
                          struct recorder_record **ret_records);
