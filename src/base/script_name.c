/* See script_name.h. */
#include "base/script_name.h"

#include "base/starts_with.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct interpreter {
    const char *name;    /* its file's name begins with this, and goes on with a version, if at all */
    const char *takes;   /* options with a value of their own, separated by spaces */
    const char *code;    /* options after which there is code, or nothing more */
    const char *program; /* options whose value is the program */
    bool has_class;      /* it runs a class, given by its whole name */
};

static const struct interpreter interpreters[] = {
    {.name = "python", .takes = " -W -X ", .code = " -c ", .program = " -m "},
    {.name = "pypy", .takes = " -W -X ", .code = " -c ", .program = " -m "},
    {.name = "node", .takes = " -r --require --import -C ", .code = " -e --eval -p --print ", .program = " "},
    {.name = "java",
     .takes = " -cp -classpath --class-path -p --module-path --add-modules --add-opens --add-exports --add-reads ",
     .code = " ",
     .program = " -jar -m --module ",
     .has_class = true},
    {.name = "ruby", .takes = " -r -I ", .code = " -e ", .program = " "},
    {.name = "perl", .takes = " ", .code = " -e -E ", .program = " "},
    {.name = "php", .takes = " -c -d -z ", .code = " -r ", .program = " -f "},
    {.name = "bash", .takes = " -o -O --rcfile --init-file ", .code = " -c ", .program = " "},
    {.name = "dash", .takes = " -o ", .code = " -c ", .program = " "},
    {.name = "sh", .takes = " -o ", .code = " -c ", .program = " "},
};

/* The next argument, or NULL at the end. One without its zero byte is not whole, and ends them. */
static const char *next_argument(const char **at, const char *end)
{
    const char *argument = *at;
    const char *zero = argument < end ? memchr(argument, '\0', (size_t)(end - argument)) : NULL;
    *at = zero ? zero + 1 : end;
    return zero ? argument : NULL;
}

static const char *after_last(const char *text, char c)
{
    const char *last = strrchr(text, c);
    return last && last[1] ? last + 1 : text;
}

static const struct interpreter *find_interpreter(const char *program)
{
    const char *file = after_last(program, '/');
    for (size_t i = 0; i < sizeof(interpreters) / sizeof(interpreters[0]); i++) {
        const struct interpreter *found = &interpreters[i];
        if (starts_with(file, found->name) &&
            !file[strlen(found->name) + strspn(file + strlen(found->name), "0123456789.")])
            return found;
    }
    return NULL;
}

static bool is_one_of(const char *options, const char *option)
{
    char word[64];
    return snprintf(word, sizeof(word), " %s ", option) < (int)sizeof(word) && strstr(options, word);
}

void script_name(const char *arguments, size_t size, char *out, size_t out_size)
{
    const char *at = arguments, *end = arguments + size, *argument = next_argument(&at, end);
    const struct interpreter *i = argument ? find_interpreter(argument) : NULL;
    bool is_script = true;
    out[0] = '\0';
    while (i && (argument = next_argument(&at, end)) && argument[0] == '-') {
        if (is_one_of(i->code, argument))
            return;
        if (is_one_of(i->program, argument)) {
            is_script = strcmp(argument, "-m") != 0 && strcmp(argument, "--module") != 0;
            argument = next_argument(&at, end);
            break;
        }
        if (is_one_of(i->takes, argument))
            next_argument(&at, end);
    }
    if (!i || !argument || argument[0] == '-')
        return;
    const char *name = after_last(argument, '/');
    if (is_script && i->has_class && name == argument && !strstr(name, ".jar"))
        name = after_last(name, '.');
    snprintf(out, out_size, "%s%s", is_script ? "" : "-m ", name);
}
