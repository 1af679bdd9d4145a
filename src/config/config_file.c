/* Configuration files in YAML: libyaml events give every error its line and key. See config.h. */
#include "config/config_private.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#define KEYS_MAX 128

/* State of the YAML event reader. */
struct reader {
    struct config *config;
    const char *path;
    char *error;
    char section[64]; /* "budget" */
    char key[64];     /* "memory", while its value is expected */
    size_t key_line;  /* of `key`, from 0 */
    int depth;        /* of nested mappings */
    bool seen[KEYS_MAX];
};

static int read_error(struct reader *r, size_t line, const char *what)
{
    snprintf(r->error, CONFIG_ERROR_BYTES, "%s:%zu: %s", r->path, line + 1, what);
    return -EINVAL;
}

/* Reads a scalar: at depth 1 or 2, keys and values alternate. */
static int read_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t line = event->start_mark.line;
    if (strlen(text) != event->data.scalar.length)
        return read_error(r, line, "a NUL byte");
    if (r->depth == 0)
        return read_error(r, line, "expected sections such as 'budget:', not a plain value");
    if (!r->key[0]) {
        if (strlen(text) >= sizeof(r->key) || !text[0])
            return read_error(r, line, "a key is empty or too long");
        snprintf(r->key, sizeof(r->key), "%s", text);
        r->key_line = line;
        return 0;
    }
    char name[160], where[300];
    snprintf(name, sizeof(name), "%s%s%s", r->section, r->section[0] ? "." : "", r->key);
    snprintf(where, sizeof(where), "%.200s:%zu", r->path, line + 1);
    r->key[0] = '\0';
    int error = config_set_value(r->config, where, name, text, r->error);
    if (error < 0)
        return error;
    struct config_key found;
    assert(config_find_key(name, &found) && found.number < KEYS_MAX);
    bool *seen = &r->seen[found.number];
    if (*seen) {
        snprintf(r->error, CONFIG_ERROR_BYTES, "%s: %s is set twice", where, name);
        return -EINVAL;
    }
    *seen = true;
    return 0;
}

static int read_mapping_start(struct reader *r, const yaml_event_t *event)
{
    if (r->depth == 1) {
        char where[300];
        if (!config_has_section(r->config, r->key)) {
            snprintf(where, sizeof(where), "%.200s:%zu", r->path, r->key_line + 1);
            config_unknown_error(r->config, where, r->key, r->error);
            return -EINVAL;
        }
        snprintf(r->section, sizeof(r->section), "%s", r->key);
        r->key[0] = '\0';
    } else if (r->depth > 1) {
        return read_error(r, event->start_mark.line, "sections are only one level deep");
    }
    r->depth++;
    return 0;
}

static int read_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    case YAML_MAPPING_START_EVENT:
        return read_mapping_start(r, event);
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        r->section[0] = r->key[0] = '\0';
        return 0;
    case YAML_SEQUENCE_START_EVENT:
        return read_error(r, event->start_mark.line, "lists are not supported");
    case YAML_ALIAS_EVENT:
        return read_error(r, event->start_mark.line, "aliases are not supported");
    default:
        return 0;
    }
}

int config_load(struct config *c, const char *path, char error[CONFIG_ERROR_BYTES])
{
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    if (!f) {
        int r = -errno;
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s", path, strerror(-r));
        return r;
    }
    struct stat st;
    if (fstat(fileno(f), &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s", path, strerror(EISDIR));
        return -EISDIR;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return -ENOMEM;
    yaml_parser_set_input_file(&parser, f);
    struct config loaded = *c;
    struct reader reader = {.config = &loaded, .path = path, .error = error};
    int r = 0;
    for (bool ended = false; !ended && r == 0;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            snprintf(error, CONFIG_ERROR_BYTES, "%s:%zu: not YAML: %s", path, parser.problem_mark.line + 1,
                     parser.problem ? parser.problem : "cannot be read");
            r = -EINVAL;
            break;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        r = read_event(&reader, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (r == 0)
        *c = loaded;
    return r;
}
