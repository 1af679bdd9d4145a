/* Configuration from YAML and flags; see config.h. Uses libyaml's events rather than a binding library: only so does every
 * message name line and key and list what is allowed (docs/decisions/0002-configuration.md). */
#include "agent/config.h"

#include "base/address.h"
#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

enum key_type { KEY_BOOL, KEY_INTEGER, KEY_PERCENT, KEY_SIZE, KEY_TEXT, KEY_ADDRESS, KEY_CHOICE };

struct key {
    const char *name;
    enum key_type type;
    size_t offset, size;
    double min, max;
    const char *allowed; /* in words; for KEY_CHOICE the words themselves, separated by ", " */
    const char *help;
};

#define FIELD(f) offsetof(struct config, f), sizeof(((struct config *)0)->f)

static const struct key keys[] = {
    {"profile.enabled", KEY_BOOL, FIELD(profile_enabled), 0, 0, "true or false", "sample what runs on the CPUs"},
    {"profile.rate", KEY_INTEGER, FIELD(profile_rate_hz), 1, 1000, "a whole number of Hz, 1 to 1000", "CPU samples a second and CPU"},
    {"requests.enabled", KEY_BOOL, FIELD(requests_enabled), 0, 0, "true or false", "watch HTTP requests at the sockets"},
    {"budget.cpu", KEY_PERCENT, FIELD(budget_cpu_share), 0.0001, 1, "a share of the machine, 0.01% to 100%, such as 1%", "CPU that Sonde may take, its BPF programs included"},
    {"budget.memory", KEY_SIZE, FIELD(budget_memory_bytes), 48 << 20, 1e12, "a size of at least 48MiB, such as 64MiB", "memory that Sonde may take, BPF maps included"},
    {"page.listen", KEY_ADDRESS, FIELD(page_listen), 0, 0, "ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070", "where the page is served"},
    {"page.allowed_hosts", KEY_TEXT, FIELD(page_allowed_hosts), 0, 0, "host names separated by commas", "names besides this host's own that browsers may use (reverse proxies)"},
    {"log.level", KEY_CHOICE, FIELD(log_level), 0, 0, "error, warning, info, debug", "how much is logged"},
};

static const size_t key_count = sizeof(keys) / sizeof(keys[0]);

void config_defaults(struct config *c)
{
    *c = (struct config){
        .profile_enabled = true,
        .profile_rate_hz = 19,
        .requests_enabled = true,
        .budget_cpu_share = 0.01,
        .budget_memory_bytes = 64 << 20,
        .page_listen = "127.0.0.1:7070",
        .log_level = "info",
    };
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < key_count; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* Whether `value` is one of the words of "a, b, c". */
static bool is_choice(const char *choices, const char *value)
{
    size_t length = strcspn(value, ", ") == strlen(value) ? strlen(value) : 0; /* one word, not two of them */
    for (const char *word = choices; length && (word = strstr(word, value)); word += length)
        if ((word == choices || word[-1] == ' ') && (word[length] == ',' || word[length] == '\0'))
            return true;
    return false;
}

static bool is_address(const char *value)
{
    union address address;
    socklen_t size;
    return address_parse(value, &address, &size) == 0;
}

static bool set_key(struct config *c, const struct key *k, const char *value)
{
    void *field = (char *)c + k->offset;
    switch (k->type) {
    case KEY_BOOL:
        *(bool *)field = strcmp(value, "true") == 0;
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    case KEY_INTEGER:
        return units_parse_integer(value, (int64_t)k->min, (int64_t)k->max, field) == 0;
    case KEY_PERCENT:
        return units_parse_percent(value, field) == 0 && *(double *)field >= k->min && *(double *)field <= k->max;
    case KEY_SIZE: {
        uint64_t *bytes = field;
        return units_parse_size_bytes(value, bytes) == 0 && *bytes >= (uint64_t)k->min && *bytes <= (uint64_t)k->max;
    }
    case KEY_CHOICE:
    case KEY_ADDRESS:
    case KEY_TEXT:
        if (k->type == KEY_CHOICE && !is_choice(k->allowed, value))
            return false;
        if (k->type == KEY_ADDRESS && !is_address(value))
            return false;
        if (strlen(value) >= k->size)
            return false;
        memcpy(field, value, strlen(value) + 1);
        return true;
    }
    return false;
}

/* The keys that begin with `prefix`, as "a, b, c". */
static void list_keys(const char *prefix, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < key_count; i++)
        if (strncmp(keys[i].name, prefix, strlen(prefix)) == 0 && used < size)
            used += snprintf(out + used, size - used, "%s%s", used ? ", " : "", keys[i].name);
}

int config_set_value(struct config *c, const char *where, const char *name, const char *value, char error[CONFIG_ERROR_BYTES])
{
    const struct key *k = find_key(name);
    if (!k) {
        char known[320];
        list_keys("", known, sizeof(known));
        snprintf(error, CONFIG_ERROR_BYTES, "%s: unknown key '%.60s'; known keys: %s", where, name, known);
        return -EINVAL;
    }
    if (!set_key(c, k, value)) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: '%.60s' is not allowed; allowed: %s", where, name, value, k->allowed);
        return -EINVAL;
    }
    return 0;
}

int config_set(struct config *c, const char *assignment, char error[CONFIG_ERROR_BYTES])
{
    char name[64];
    const char *equals = strchr(assignment, '=');
    if (!equals || (size_t)(equals - assignment) >= sizeof(name)) {
        snprintf(error, CONFIG_ERROR_BYTES, "--set: '%.60s' is not KEY=VALUE", assignment);
        return -EINVAL;
    }
    memcpy(name, assignment, equals - assignment);
    name[equals - assignment] = '\0';
    struct config copy = *c;
    int r = config_set_value(&copy, "--set", name, equals + 1, error);
    if (r == 0)
        *c = copy;
    return r;
}

/* Where the reader of events stands: inside which section, holding which key. */
struct reader {
    struct config *config;
    const char *path;
    char *error;
    char section[64]; /* "budget" */
    char key[64];     /* "cpu", when its value comes next */
    int depth;        /* of mappings */
    bool seen[sizeof(keys) / sizeof(keys[0])];
};

static int read_error(struct reader *r, size_t line, const char *what)
{
    snprintf(r->error, CONFIG_ERROR_BYTES, "%s:%zu: %s", r->path, line + 1, what);
    return -EINVAL;
}

/* A plain value: at depth 1 or 2 it is alternately a key and a key's value. */
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
            return read_error(r, line, "a key of no or too many characters");
        snprintf(r->key, sizeof(r->key), "%s", text);
        return 0;
    }
    char name[160], where[300];
    snprintf(name, sizeof(name), "%s%s%s", r->section, r->section[0] ? "." : "", r->key);
    snprintf(where, sizeof(where), "%.200s:%zu", r->path, line + 1);
    r->key[0] = '\0';
    int error = config_set_value(r->config, where, name, text, r->error);
    if (error < 0)
        return error;
    bool *seen = &r->seen[find_key(name) - keys];
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
        char known[256], prefix[80];
        snprintf(prefix, sizeof(prefix), "%s.", r->key);
        list_keys(prefix, known, sizeof(known));
        if (!known[0]) {
            list_keys("", known, sizeof(known));
            snprintf(r->error, CONFIG_ERROR_BYTES, "%s:%zu: unknown section '%s'; known keys: %s", r->path,
                     event->start_mark.line, r->key, known);
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
        return read_error(r, event->start_mark.line, "lists are not used here");
    case YAML_ALIAS_EVENT:
        return read_error(r, event->start_mark.line, "aliases are not used here");
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

bool config_describe(const struct config *c, size_t i, struct config_key_description *ret)
{
    if (i >= key_count)
        return false;
    const struct key *k = &keys[i];
    const void *field = (const char *)c + k->offset;
    *ret = (struct config_key_description){.key = k->name, .allowed = k->allowed, .help = k->help};
    switch (k->type) {
    case KEY_BOOL:
        snprintf(ret->value, sizeof(ret->value), "%s", *(const bool *)field ? "true" : "false");
        break;
    case KEY_INTEGER:
        snprintf(ret->value, sizeof(ret->value), "%lld", (long long)*(const int64_t *)field);
        break;
    case KEY_PERCENT:
        snprintf(ret->value, sizeof(ret->value), "%g%%", *(const double *)field * 100);
        break;
    case KEY_SIZE:
        snprintf(ret->value, sizeof(ret->value), "%lluMiB", (unsigned long long)(*(const uint64_t *)field >> 20));
        break;
    case KEY_TEXT:
    case KEY_ADDRESS:
    case KEY_CHOICE:
        snprintf(ret->value, sizeof(ret->value), "%s", (const char *)field);
        break;
    }
    return true;
}
