/* Names of interrupts; see path_names.h. */
#include "diagnose/path/path_names.h"

#include <stdio.h>

#include <linux/types.h>

#include "probes/recorder/recorder.h"

const char *path_names_interrupt(uint64_t what, const struct path_names *names, char out[PATH_RAN_BYTES])
{
    char name[PATH_INTERRUPT_BYTES] = "an interrupt";
    if (names->interrupt)
        names->interrupt(names->context, recorder_low(what), name);
    snprintf(out, PATH_RAN_BYTES, "CPU %u ran %s", recorder_high(what), name);
    return out;
}
