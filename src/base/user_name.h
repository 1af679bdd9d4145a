/* Users by their names, as this machine knows them. */
#pragma once

#include <stdint.h>

/* A name, or a number where no user has it for a name. -ESRCH: neither. May ask the network for it, as the machine's
 * configuration has it. */
int user_name_parse(const char *text, uint32_t *ret_user);
