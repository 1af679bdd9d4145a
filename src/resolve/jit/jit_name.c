/* Parser of JIT symbol names; see jit_name.h.
 *
 * V8's notation (src/logging/log.cc): the kind, a colon, a mark of the compilation tier, the function's name (empty for
 * an anonymous function and for a script's top-level code), a space, the script's name, ":LINE:COLUMN" where the
 * function begins. */
#include "resolve/jit/jit_name.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The text after V8's prefix and tier mark; NULL: not a JavaScript function. */
static const char *skip_v8_prefix(const char *name)
{
    static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:", "InterpretedFunction:"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const size_t n = strlen(kinds[i]);
        if (strncmp(name, kinds[i], n) == 0 && name[n] && strchr("~*^+-'", name[n]))
            return name + n + 1;
    }
    return NULL;
}

bool jit_name_is_v8(const char *name)
{
    return skip_v8_prefix(name) != NULL;
}

/* Removes ":NUMBER" from the end of `text` and returns the number; UINT32_MAX: no number. */
static uint32_t cut_number(char *text)
{
    char *colon = strrchr(text, ':');
    uint64_t value = 0;
    if (!colon || !colon[1])
        return UINT32_MAX;
    for (const char *at = colon + 1; *at; at++) {
        if (*at < '0' || *at > '9' || value > UINT32_MAX / 16)
            return UINT32_MAX;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *colon = '\0';
    return (uint32_t)value;
}

/* Function names ("get size") and script names may contain spaces. The first space before a typical start of a script
 * name is the separator, else the last space. */
static char *find_script(char *text)
{
    static const char *const starts[] = {" /",        " file://", " node:",   " evalmachine.",
                                         " webpack:", " http://", " https://"};
    char *found = NULL;
    for (size_t i = 0; i < sizeof(starts) / sizeof(*starts); i++) {
        char *at = strstr(text, starts[i]);
        if (at && (!found || at < found))
            found = at;
    }
    return found ? found : strrchr(text, ' ');
}

static void parse_v8(char *text, struct jit_name *ret)
{
    char *end = text + strlen(text);
    const uint32_t last = cut_number(text), before = last == UINT32_MAX ? last : cut_number(text);
    const uint32_t line = before != UINT32_MAX ? before : last; /* old versions write no column */
    char *script = find_script(text);
    ret->kind = FRAME_V8JS;
    ret->line = line == UINT32_MAX ? 0 : line;
    if (script) {
        *script = '\0';
        ret->file = script + 1;
    }
    if (!ret->file[0])
        ret->line = 0;
    ret->function = text;
    if (!text[0]) { /* stored after the original string */
        char *name = end + 1;
        snprintf(name, JIT_NAME_ROOM - 1, "(anonymous:%" PRIu32 ")", ret->line);
        ret->function = name;
    }
}

void jit_name_parse(char *name, struct jit_name *ret)
{
    for (char *at = name; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    *ret = (struct jit_name){.kind = FRAME_NATIVE, .function = name, .file = ""};
    const char *function = skip_v8_prefix(name);
    if (function)
        parse_v8(name + (function - name), ret);
    else if (strncmp(name, "RegExp:", 7) == 0)
        ret->kind = FRAME_V8JS;
}
