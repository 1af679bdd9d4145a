/* Names of softirqs and interrupts, by their numbers in probes/interrupts.h. */
#pragma once

#include <stdint.h>

#include <linux/types.h>

#include "probes/interrupts.h"

/* Returns the name of a softirq as in /proc/softirqs ("NET_RX"), or of a vector ("local timer"), a static string. NULL:
 * `number` is an interrupt line, or unknown. */
const char *interrupt_static_name(uint32_t number);
/* The first column of /proc/interrupts for a vector: "LOC". A static string. */
const char *interrupt_vector_symbol(enum interrupt_vector vector);

/* Writes the name of any number. The handlers of an interrupt line are read from /sys: "virtio1-req.0"; "interrupt 36"
 * if there are none any more. Returns `out`. */
const char *interrupt_name_read(uint32_t number, char out[INTERRUPT_NAME_BYTES]);
