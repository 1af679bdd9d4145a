/* Drops root for commands of a user of sudo; see sudo_user.h. */
#include "base/sudo_user.h"

#include "base/units.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The highest value, -1, means "unchanged" to setuid and setgid. */
#define ID_MAX (UINT32_MAX - 1)

int sudo_user_find(struct sudo_user *ret)
{
    const char *uid_text = getenv("SUDO_UID"), *gid_text = getenv("SUDO_GID");
    int64_t uid, gid;
    ret->uid = 0;
    if (geteuid() != 0 || !uid_text)
        return 0;
    if (!gid_text || units_parse_integer(uid_text, 0, ID_MAX, &uid) < 0 ||
        units_parse_integer(gid_text, 0, ID_MAX, &gid) < 0)
        return -EINVAL;
    *ret = (struct sudo_user){.uid = (uid_t)uid, .gid = (gid_t)gid, .groups = {(gid_t)gid}, .group_count = 1};
    const struct passwd *user = getpwuid(ret->uid);
    if (!user)
        return 0;
    snprintf(ret->name, sizeof(ret->name), "%s", user->pw_name);
    snprintf(ret->home, sizeof(ret->home), "%s", user->pw_dir);
    int count = SUDO_USER_GROUPS_MAX;
    if (getgrouplist(user->pw_name, ret->gid, ret->groups, &count) < 0)
        count = SUDO_USER_GROUPS_MAX; /* the first ones: without a group, the command has fewer rights */
    ret->group_count = count;
    return 0;
}

int sudo_user_become(const struct sudo_user *u)
{
    if (u->uid == 0)
        return 0;
    if (setgroups((size_t)u->group_count, u->groups) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
        setresuid(u->uid, u->uid, u->uid) < 0)
        return -errno;
    if (u->name[0] &&
        (setenv("HOME", u->home, 1) < 0 || setenv("USER", u->name, 1) < 0 || setenv("LOGNAME", u->name, 1) < 0))
        return -errno;
    return 0;
}
