/* User names of this machine. */
#pragma once

#include <stdint.h>

/* A user name or, if no user has that name, a numeric UID. -ESRCH: neither. May query the network, depending on
 * nsswitch.conf. */
int user_name_parse(const char *text, uint32_t *ret_user);
