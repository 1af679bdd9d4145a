/* The error message for a key or a section that does not exist; see config_private.h. */
#include "config/config_private.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 160
#define LIST_HINT  "`sonde up --config /dev/null --print-config` lists all keys"

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of characters to insert, delete or replace to turn one text into the other (Levenshtein). Both have fewer
 * than NAME_BYTES characters. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_BYTES];
    const size_t size = strlen(b);
    for (size_t j = 0; j <= size; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < size; j++) {
            const size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = min_of(replaced, min_of(row[j], diagonal) + 1);
        }
    }
    return row[size];
}

/* A name without a dot is compared with sections and with the last words of keys, too. */
static size_t distance_to_key(const char *name, const char *key)
{
    char section[NAME_BYTES];
    const char *word = strchr(key, '.') + 1;
    const size_t whole = edit_distance(name, key);
    if (strchr(name, '.'))
        return whole;
    snprintf(section, sizeof(section), "%.*s", (int)(word - 1 - key), key);
    return min_of(whole, min_of(edit_distance(name, section), edit_distance(name, word)));
}

static bool is_in_section(const char *key, const char *section, size_t size)
{
    return strncmp(key, section, size) == 0 && key[size] == '.';
}

bool config_has_section(const struct config *c, const char *section)
{
    struct config_key_description k;
    char prefix[NAME_BYTES];
    for (size_t i = 0; config_describe(c, i, &k); i++)
        if (is_in_section(k.key, section, strlen(section)))
            return true;
    snprintf(prefix, sizeof(prefix), "%s.", section);
    return config_has_renamed(prefix);
}

void config_unknown_error(const struct config *c, const char *where, const char *name, char error[CONFIG_ERROR_BYTES])
{
    struct config_key_description k;
    char cut[NAME_BYTES], nearest[NAME_BYTES] = "", known[CONFIG_ERROR_BYTES / 2] = "";
    snprintf(cut, sizeof(cut), "%s", name);
    const size_t section = strcspn(cut, ".");
    size_t least = SIZE_MAX, used = 0;
    for (size_t i = 0; config_describe(c, i, &k); i++) {
        const size_t distance = distance_to_key(cut, k.key);
        if (cut[section] && is_in_section(k.key, cut, section) && used < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", k.key);
        if (distance < least)
            snprintf(nearest, sizeof(nearest), "%s", k.key);
        least = min_of(least, distance);
    }
    if (used)
        snprintf(error, CONFIG_ERROR_BYTES, "%s: unknown key '%.60s'; keys of this section: %s", where, cut, known);
    else
        snprintf(error, CONFIG_ERROR_BYTES, "%s: unknown %s '%.60s'; the nearest key is %s. " LIST_HINT, where,
                 cut[section] ? "key" : "section or key", cut, nearest);
}
