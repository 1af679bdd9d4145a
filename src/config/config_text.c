/* The configuration as a file; see config.h. */
#include "config/config.h"

#include <ctype.h>
#include <string.h>

static void put_key(const struct config_key_description *d, const char *name, struct buf *out)
{
    const bool is_word = isalnum((unsigned char)d->value[0]) && !strpbrk(d->value, " #");
    const char *quote = is_word ? "" : "\""; /* "[::1]:7070" would be a list; no value holds a quote */
    if (d->is_cut)                           /* a truncated value must not be read back */
        buf_printf(out, "  # %s: %s    # truncated; %s (%s)\n", name, d->value, d->help, d->allowed);
    else
        buf_printf(out, "  %s: %s%s%s    # %s (%s)\n", name, quote, d->value, quote, d->help, d->allowed);
}

void config_put_text(const struct config *c, struct buf *out)
{
    struct config_key_description d;
    char section[32] = "";
    for (size_t i = 0; config_describe(c, i, &d); i++) {
        const size_t length = strcspn(d.key, ".");
        if (strncmp(section, d.key, length) != 0 || section[length]) {
            snprintf(section, sizeof(section), "%.*s", (int)length, d.key);
            buf_printf(out, "%s:\n", section);
        }
        put_key(&d, d.key + length + 1, out);
    }
}
