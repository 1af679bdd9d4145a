/* What a goroutine waits for, by the number that Go's runtime has for the reason (probes/recorder/recorder.h). */
#pragma once

#include <linux/types.h>

#include "probes/go_labels.h"

#include <stdbool.h>
#include <stdint.h>

/* The reasons of Go 1.`minor`. False, and nothing is set: its numbers are not known. */
bool go_waits_set(unsigned minor, uint8_t ret[GO_WAITS_MAX]);
