/* A configuration file is either refused with a reason and changes nothing, or accepted whole; then the printed value
 * of each key is a valid value of that key. */
#include "base/cleanup.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_values(const struct config *c)
{
    struct config_key_description key;
    char error[CONFIG_ERROR_BYTES];
    struct config again = *c;
    for (size_t i = 0; config_describe(c, i, &key); i++)
        if (key.value[0] && !key.is_cut && config_set_value(&again, "again", key.key, key.value, error) < 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[32], error[CONFIG_ERROR_BYTES] = "";
    struct config c, before;
    _cleanup_close_ int fd = memfd_create("sonde.yaml", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    memset(&c, 0, sizeof(c)); /* including padding, because it is compared */
    config_defaults(&c);
    memcpy(&before, &c, sizeof(c));
    int r = config_load(&c, path, error);
    if (r < 0 && (!error[0] || strnlen(error, sizeof(error)) == sizeof(error) || memcmp(&c, &before, sizeof(c)) != 0))
        abort();
    if (r == 0)
        check_values(&c);
    return 0;
}
