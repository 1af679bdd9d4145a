/* The user who started this program through sudo: commands run as this user, not as root. */
#pragma once

#include <sys/types.h>

#define SUDO_USER_GROUPS_MAX 1024

struct sudo_user {
    uid_t uid; /* 0: not started through sudo, or by root */
    gid_t gid;
    gid_t groups[SUDO_USER_GROUPS_MAX]; /* supplementary groups, `gid` included */
    int group_count;
    char name[256]; /* "": the user has no entry in the user database */
    char home[4096];
};

/* Reads SUDO_UID and SUDO_GID if this process runs as root, and looks up the user's groups, name and home directory.
 * Without an entry in the user database, SUDO_GID is the only group. Returns 0, or -EINVAL when the variables are not
 * valid IDs. */
int sudo_user_find(struct sudo_user *ret);

/* Gives up root for good: sets groups, GID and UID, and HOME, USER and LOGNAME if the user has a name. Does nothing
 * where `u->uid` is 0. Returns 0, or -errno, when the process may still have some of root's rights. */
int sudo_user_become(const struct sudo_user *u);
