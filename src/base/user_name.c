/* User names; see user_name.h. */
#include "base/user_name.h"

#include "base/units.h"

#include <errno.h>
#include <pwd.h>
#include <stddef.h>

int user_name_parse(const char *text, uint32_t *ret_user)
{
    const struct passwd *user = getpwnam(text);
    int64_t number;
    if (!user && units_parse_integer(text, 0, UINT32_MAX, &number) < 0)
        return -ESRCH;
    *ret_user = user ? user->pw_uid : (uint32_t)number;
    return 0;
}
