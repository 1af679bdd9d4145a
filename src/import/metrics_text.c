/* See metrics_text.h. */
#include "import/metrics_text.h"

#include <stdlib.h>
#include <string.h>

/* Removes the escapes of a value, which ends with a quote, and terminates it. Returns the text behind the quote; NULL:
 * there is no quote. */
static char *terminate_value(char *value)
{
    char *from = value, *to = value;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    if (!*from)
        return NULL;
    *to = '\0';
    return from + 1;
}

/* Returns the text behind `NAME="VALUE"`; NULL: it is another text. */
static char *read_label(char *text, struct metrics_text_label *ret)
{
    char *equals = text + strcspn(text, "=\"{},");
    if (equals == text || equals[0] != '=' || equals[1] != '"')
        return NULL;
    *equals = '\0';
    *ret = (struct metrics_text_label){text, equals + 2};
    return terminate_value(equals + 2);
}

/* Returns the text behind the closing brace; NULL: there is none. */
static char *read_labels(char *text, struct metrics_text_series *ret)
{
    while (*text != '}') {
        struct metrics_text_label label;
        text = read_label(text, &label);
        if (!text || (*text != ',' && *text != '}'))
            return NULL;
        if (ret->label_count < METRICS_TEXT_LABELS_MAX)
            ret->labels[ret->label_count++] = label;
        text += *text == ',';
    }
    return text + 1;
}

static bool read_series(char *line, struct metrics_text_series *ret)
{
    char *at = line + strcspn(line, "{ "), *end;
    const char separator = *at;
    if (at == line || !separator)
        return false;
    *at++ = '\0';
    *ret = (struct metrics_text_series){.name = line};
    if (separator == '{')
        at = read_labels(at, ret);
    if (!at)
        return false;
    ret->value = strtod(at, &end);
    return end != at;
}

bool metrics_text_next(char **at, struct metrics_text_series *ret)
{
    while (**at) {
        char *line = *at;
        *at += strcspn(line, "\n");
        if (**at)
            *(*at)++ = '\0';
        if (line[0] != '#' && read_series(line, ret))
            return true;
    }
    return false;
}

const char *metrics_text_label(const struct metrics_text_series *series, const char *name)
{
    for (size_t i = 0; i < series->label_count; i++)
        if (strcmp(series->labels[i].name, name) == 0)
            return series->labels[i].value;
    return "";
}
