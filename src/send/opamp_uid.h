/* The instance UID by which a server knows an agent: the same after each start, although the agent keeps no file. It is
 * a hash of the machine's id and the host's name. The machine's id is confidential (machine-id(5)), and cannot be found
 * from it. Two agents with the same id and name have the same UID: the server notices it, and gives one of them
 * another (opamp_reply.h). */
#pragma once

#include "lib/otlp/opamp_fields.h"

#include <stdbool.h>
#include <stdint.h>

/* `machine_id`: the text of a file like /etc/machine-id. False: it is no machine id; `ret` is unchanged. Pure. */
bool opamp_uid_derive(const char *machine_id, const char *host_name, uint8_t ret[OPAMP_UID_BYTES]);

/* Of this host. Where the machine has no id that can be read, the UID is new with each start, and false is returned. */
bool opamp_uid_make(const char *host_name, uint8_t ret[OPAMP_UID_BYTES]);
