/* See opamp_uid.h. */
#include "send/opamp_uid.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/uuid.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define DIGITS         32
#define NAME_MAX_BYTES sizeof(((struct utsname *)0)->nodename)

/* So that no other program that hashes the same id has the same result. */
static const char role[] = "sonde agent";

bool opamp_uid_derive(const char *machine_id, const char *host_name, uint8_t ret[OPAMP_UID_BYTES])
{
    char text[sizeof(role) + DIGITS + NAME_MAX_BYTES];
    unsigned char hash[SHA256_BYTES];
    size_t digits = 0;
    bool is_zero = true;
    for (; digits < DIGITS && hex_value(machine_id[digits]) >= 0; digits++)
        is_zero &= machine_id[digits] == '0';
    if (digits < DIGITS || is_zero || (machine_id[digits] != '\n' && machine_id[digits] != '\0'))
        return false;
    const int size = snprintf(text, sizeof(text), "%s %.*s%s", role, DIGITS, machine_id, host_name);
    sha256(text, (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1, hash);
    uuid_of_hash(hash, ret);
    explicit_bzero(text, sizeof(text));
    return true;
}

bool opamp_uid_make(const char *host_name, uint8_t ret[OPAMP_UID_BYTES])
{
    /* An agent in a container of the host's PID namespace: the host's id, and not the image's. */
    static const char *const paths[] = {"/proc/1/root/etc/machine-id", "/etc/machine-id"};
    for (size_t i = 0; i < array_size(paths); i++) {
        char text[DIGITS + 2] = "";
        _cleanup_close_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 && read(fd, text, sizeof(text) - 1) >= DIGITS && opamp_uid_derive(text, host_name, ret))
            return true;
    }
    uuid_make(ret);
    return false;
}
