/* Configuration from YAML and command line options: see config.h. libyaml events give every error its line and key. */
#include "agent/config.h"

#include "base/address.h"
#include "base/cleanup.h"
#include "base/host_name.h"
#include "base/units.h"
#include "otlp/settings.h"
#include "otlp/transport.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

enum key_type {
    KEY_BOOL,
    KEY_INTEGER,
    KEY_PERCENT,
    KEY_SIZE,
    KEY_ADDRESS,
    KEY_HOSTS,
    KEY_CHOICE,
    KEY_URL,
    KEY_TEXT,
    KEY_SECRET,
    KEY_SAMPLING_RULES,
    KEY_LABELS
};

struct key {
    const char *name;
    enum key_type type;
    size_t offset, size;
    double min, max;
    const char *allowed; /* in prose; for KEY_CHOICE the words, separated by ", " */
    const char *help;
};

#define SHOWN_MAX   60            /* bytes of an invalid value in a message */
#define KNOWN_BYTES 640           /* of the names of all keys */
#define NOT_SHOWN   "(not shown)" /* shown for a secret; not a valid secret itself */

#define FIELD(f)    offsetof(struct config, f), sizeof(((struct config *)0)->f)

static const struct key keys[] = {
    {"profile.enabled", KEY_BOOL, FIELD(profile_enabled), 0, 0, "true or false", "sample what runs on the CPUs"},
    {"profile.rate", KEY_INTEGER, FIELD(profile_rate_hz), 0, 1000, "a whole number of Hz, 0 to 1000",
     "CPU samples per second and CPU; 0: only where profile.sampling_rules match"},
    {"profile.sampling_rules", KEY_SAMPLING_RULES, FIELD(profile_sampling_rules), 0, 0,
     "at most 32 of SELECTOR=VALUE:HZ, separated by commas, each selector once: pid, cgroup, container, pod, pod-label, command or user; 0 to 1000 Hz; such as command=mlserver:99, pod-label=app=web:49, user=backup:0",
     "processes to sample at other rates; the first matching rule applies"},
    {"requests.enabled", KEY_BOOL, FIELD(requests_enabled), 0, 0, "true or false",
     "watch HTTP requests at the sockets"},
    {"links.enabled", KEY_BOOL, FIELD(links_enabled), 0, 0, "true or false",
     "attach to programs that trace requests with libsonde, to link samples to requests"},
    {"off_cpu.enabled", KEY_BOOL, FIELD(off_cpu_enabled), 0, 0, "true or false",
     "also record where threads wait, for what and how long"},
    {"budget.cpu", KEY_PERCENT, FIELD(budget_cpu_share), 0.0001, 1, "a share of the machine, 0.01% to 100%, such as 1%",
     "CPU limit of Sonde, including its BPF programs"},
    {"budget.memory", KEY_SIZE, FIELD(budget_memory_bytes), 48 << 20, 1e12, "a size of at least 48MiB, such as 64MiB",
     "memory limit of Sonde, including BPF maps"},
    {"page.listen", KEY_ADDRESS, FIELD(page_listen), 0, 0, "ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070",
     "where the page is served"},
    {"page.allowed_hosts", KEY_HOSTS, FIELD(page_allowed_hosts), 0, 0,
     "names or addresses of hosts, each with a port or for any, separated by commas, such as sonde.example.org, localhost:8080, [::1]:8080",
     "additional host names that browsers may use (reverse proxies)"},
    {"otlp.profiles_endpoint", KEY_URL, FIELD(otlp_profiles_endpoint), 0, 0,
     "a URL of http or https, such as http://collector:4318/v1development/profiles, or nothing",
     "where profiles are sent to, as OTLP"},
    {"otlp.protocol", KEY_CHOICE, FIELD(otlp_protocol), 0, 0, "http/protobuf, grpc",
     "protocol of the receiver; a gRPC URL has no path: http://collector:4317"},
    {"otlp.interval", KEY_INTEGER, FIELD(otlp_interval_s), 1, 300, "a whole number of seconds, 1 to 300",
     "time span of one exported profile"},
    {"otlp.compression", KEY_CHOICE, FIELD(otlp_compression), 0, 0, "gzip, zstd, none", "compression of packets"},
    {"otlp.timestamp_resolution", KEY_CHOICE, FIELD(otlp_timestamp_resolution), 0, 0, "exact, 1ms, 17ms, 1s, none",
     "resolution of sample timestamps; none: equal samples are only counted"},
    {"otlp.system_names", KEY_BOOL, FIELD(otlp_system_names), 0, 0, "true or false",
     "also send linker (mangled) names of functions where they differ (C++, Rust)"},
    {"otlp.timeout", KEY_INTEGER, FIELD(otlp_timeout_ms), 1, 600000, "a whole number of milliseconds, 1 to 600000",
     "timeout of one attempt to deliver a packet"},
    {"otlp.headers", KEY_SECRET, FIELD(otlp_headers), 0, 0, "name=value,..., values percent-encoded",
     "HTTP headers sent with each packet; never shown"},
    {"otlp.certificate", KEY_TEXT, FIELD(otlp_certificate), 0, 0, "a path",
     "file of trusted CA certificates, instead of the system's"},
    {"otlp.client_certificate", KEY_TEXT, FIELD(otlp_client_certificate), 0, 0, "a path",
     "file of the client certificate"},
    {"otlp.client_key", KEY_TEXT, FIELD(otlp_client_key), 0, 0, "a path", "file of the client certificate's key"},
    {"kubernetes.cri_socket", KEY_TEXT, FIELD(kubernetes_cri_socket), 0, 0, "a path, or nothing",
     "socket of the container runtime, queried for pod names; nothing: the default paths"},
    {"kubernetes.pod_labels", KEY_LABELS, FIELD(kubernetes_pod_labels), 0, 0,
     "names of labels, 16 at most, of at most 111 bytes each, separated by commas, such as app.kubernetes.io/name,tier",
     "pod labels to attach to samples"},
    {"log.level", KEY_CHOICE, FIELD(log_level), 0, 0, "error, warning, info, debug", "how much is logged"},
};

static const size_t key_count = sizeof(keys) / sizeof(keys[0]);
_Static_assert(sizeof(keys) / sizeof(keys[0]) <= 32, "bits of config.inherited");

void config_defaults(struct config *c)
{
    *c = (struct config){
        .profile_enabled = true,
        .profile_rate_hz = CONFIG_RATE_HZ,
        .requests_enabled = true,
        .budget_cpu_share = 0.01,
        .budget_memory_bytes = 64 << 20,
        .page_listen = "127.0.0.1:7070",
        .otlp_protocol = "http/protobuf",
        .otlp_compression = "gzip",
        .otlp_timestamp_resolution = "1ms",
        .otlp_system_names = true,
        .otlp_timeout_ms = OTLP_TIMEOUT_MS,
        .otlp_interval_s = 60,
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
    size_t length = strcspn(value, ", ") == strlen(value) ? strlen(value) : 0; /* a single word */
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

static bool can_be_a_pod(const struct sampling_rule *t)
{
    return t->selector == SAMPLING_RULE_POD_NAME
               ? pod_choice_check(POD_CHOICE_NAME, t->value)
               : t->selector != SAMPLING_RULE_POD_LABEL || pod_choice_check(POD_CHOICE_LABELS, t->value);
}

/* The first invalid rule; NULL: all are valid. */
static const char *find_bad_sampling_rule(const char *list, int *ret_length)
{
    struct sampling_rules rules;
    const char *bad = NULL;
    size_t bytes = 0;
    if (sampling_rules_parse(list, &rules, &bad, &bytes) == 0)
        for (size_t i = 0; i < rules.count && !bad; i++)
            if (!can_be_a_pod(&rules.list[i])) {
                bytes = strlen(rules.list[i].value);
                bad = strstr(list, rules.list[i].value);
            }
    *ret_length = (int)bytes;
    return bad;
}

/* The first invalid host name; NULL: all are valid. */
static const char *find_bad_host(const char *list, int *ret_length)
{
    struct host_name host;
    for (;;) {
        const char *entry = list + strspn(list, " \t");
        int r = host_name_next(&list, &host);
        if (r < 0)
            *ret_length = (int)strcspn(entry, ",");
        if (r <= 0)
            return r < 0 ? entry : NULL;
    }
}

static bool is_url(const char *value)
{
    const char *host = strncmp(value, "http://", 7) == 0    ? value + 7
                       : strncmp(value, "https://", 8) == 0 ? value + 8
                                                            : NULL;
    if (!host || !*host || strchr("/?#:", *host))
        return false;
    for (const char *c = value; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || *c == '"')
            return false;
    return otlp_transport_check_url(value, false, &(const char *){0}) ==
           0; /* report an unusable URL here, with file and line */
}

/* Whether the value can be written between quotes on one line of YAML. */
static bool is_plain(const char *value)
{
    for (; *value; value++)
        if ((unsigned char)*value < ' ' || *value == 0x7f || *value == '"' || *value == '\\')
            return false;
    return true;
}

/* Whether the value is free text, limited by the field size. */
static bool is_text(const struct key *k)
{
    return k->type == KEY_ADDRESS || k->type == KEY_HOSTS || k->type == KEY_SAMPLING_RULES || k->type == KEY_URL ||
           k->type == KEY_TEXT || k->type == KEY_SECRET || k->type == KEY_LABELS;
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
    case KEY_HOSTS:
    case KEY_URL:
    case KEY_TEXT:
    case KEY_SECRET:
    case KEY_SAMPLING_RULES:
    case KEY_LABELS:
        if (k->type == KEY_LABELS && !pods_check_keys(value))
            return false;
        if (k->type == KEY_URL && value[0] && !is_url(value))
            return false;
        if ((k->type == KEY_TEXT || k->type == KEY_SECRET || k->type == KEY_SAMPLING_RULES) && !is_plain(value))
            return false;
        if (k->type == KEY_SECRET && strcmp(value, NOT_SHOWN) == 0)
            return false;
        if (k->type == KEY_CHOICE && !is_choice(k->allowed, value))
            return false;
        if (k->type == KEY_ADDRESS && !is_address(value))
            return false;
        if (k->type == KEY_HOSTS && find_bad_host(value, &(int){0}))
            return false;
        if (k->type == KEY_SAMPLING_RULES && find_bad_sampling_rule(value, &(int){0}))
            return false;
        memcpy(field, value, strlen(value) + 1);
        return true;
    }
    return false;
}

/* Lists the keys that begin with `prefix`, as "a, b, c". */
static void list_keys(const char *prefix, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < key_count; i++)
        if (strncmp(keys[i].name, prefix, strlen(prefix)) == 0 && used < size)
            used += snprintf(out + used, size - used, "%s%s", used ? ", " : "", keys[i].name);
}

static void drop_inherited(struct config *c)
{
    struct config defaults;
    config_defaults(&defaults);
    for (size_t i = 0; i < key_count; i++)
        if (c->inherited >> i & 1)
            memcpy((char *)c + keys[i].offset, (char *)&defaults + keys[i].offset, keys[i].size);
    c->inherited = 0;
}

int config_set_value(struct config *c, const char *where, const char *name, const char *value,
                     char error[CONFIG_ERROR_BYTES])
{
    const struct key *k = find_key(name);
    if (!k) {
        char known[KNOWN_BYTES];
        list_keys("", known, sizeof(known));
        snprintf(error, CONFIG_ERROR_BYTES, "%s: unknown key '%.60s'; known keys: %s", where, name, known);
        return -EINVAL;
    }
    if (is_text(k) && strlen(value) >= k->size) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: %zu bytes are too many; allowed: %zu", where, name, strlen(value),
                 k->size - 1);
        return -EINVAL;
    }
    if (!set_key(c, k, value) && (k->type == KEY_SECRET || k->type == KEY_URL)) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: the value is not allowed; allowed: %s", where, name, k->allowed);
        return -EINVAL;
    }
    if (!set_key(c, k, value)) {
        int length = SHOWN_MAX;
        const char *bad = k->type == KEY_HOSTS            ? find_bad_host(value, &length)
                          : k->type == KEY_SAMPLING_RULES ? find_bad_sampling_rule(value, &length)
                                                          : NULL;
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: '%.*s' is not allowed; allowed: %s", where, name,
                 length < SHOWN_MAX ? length : SHOWN_MAX, bad ? bad : value, k->allowed);
        return -EINVAL;
    }
    c->inherited &= ~(1u << (k - keys));
    if (k->type == KEY_URL)
        drop_inherited(c);
    return 0;
}

uint32_t config_sampling_rules(const struct config *c, struct sampling_rules *ret)
{
    const char *bad;
    size_t bytes;
    (void)sampling_rules_parse(c->profile_sampling_rules, ret, &bad, &bytes); /* validated when it was set */
    return sampling_rules_clock_hz(ret, (uint32_t)c->profile_rate_hz);
}

int config_pod_labels(const struct config *c, char ret[CONFIG_POD_LABELS_BYTES])
{
    struct sampling_rules rules;
    config_sampling_rules(c, &rules);
    snprintf(ret, CONFIG_POD_LABELS_BYTES, "%s", c->kubernetes_pod_labels);
    for (size_t i = 0; i < rules.count; i++)
        if (rules.list[i].selector == SAMPLING_RULE_POD_LABEL &&
            !pod_choice_add_keys(rules.list[i].value, ret, CONFIG_POD_LABELS_BYTES))
            return -E2BIG;
    return 0;
}

bool config_is_grpc(const struct config *c)
{
    return strcmp(c->otlp_protocol, "grpc") == 0;
}

/* Powers of two, because their multiples have zero low-order bytes (compressible), unlike multiples of 10^6. */
bool config_timestamp_step(const struct config *c, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        uint64_t step_ns;
    } steps[] = {{"exact", 0}, {"1ms", 1ull << 20}, {"17ms", 1ull << 24}, {"1s", 1ull << 30}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (strcmp(c->otlp_timestamp_resolution, steps[i].name) == 0) {
            *ret_ns = steps[i].step_ns;
            return true;
        }
    return false;
}

/* The variable that otlp_settings_read used: the one of profiles, or the one of all signals. */
static void name_variable(char ret[64], const char *name)
{
    snprintf(ret, 64, "OTEL_EXPORTER_OTLP_PROFILES_%s", name);
    const char *value = getenv(ret);
    if (!value || !*value)
        snprintf(ret, 64, "OTEL_EXPORTER_OTLP_%s", name);
}

static void set_from_environment(struct config *c, const char *variable, const char *name, const char *value,
                                 char *error)
{
    char where[64];
    name_variable(where, variable);
    if (value[0] && config_set_value(c, where, name, value, error) < 0)
        c->otlp_profiles_endpoint[0] =
            '\0'; /* a partial configuration could send data to the wrong place or with the wrong identity */
}

/* Credentials belong to the environment's endpoint only; without that endpoint they are ignored and not validated. */
static void inherit(struct config *c, const char *variable, const char *name, const char *value, char *error)
{
    if (!c->otlp_profiles_endpoint[0])
        return;
    set_from_environment(c, variable, name, value, error);
    c->inherited |= 1u << (find_key(name) - keys);
}

/* Disables an endpoint that the protocol cannot use and reports why: a URL valid for HTTP may be invalid for gRPC. */
static void check_environment_endpoint(struct config *c, char *error)
{
    char where[64];
    const char *why = "";
    if (!c->otlp_profiles_endpoint[0] ||
        otlp_transport_check_url(c->otlp_profiles_endpoint, config_is_grpc(c), &why) == 0)
        return;
    name_variable(where, "ENDPOINT");
    snprintf(error, CONFIG_ERROR_BYTES, "%s: %s", where, why);
    c->otlp_profiles_endpoint[0] = '\0';
}

void config_environment(struct config *c, char error[CONFIG_ERROR_BYTES])
{
    struct otlp_settings s;
    error[0] = '\0';
    if (otlp_settings_read(&s, OTLP_SIGNAL_PROFILES) < 0) {
        snprintf(error, CONFIG_ERROR_BYTES, "OTEL_EXPORTER_OTLP_...: out of memory");
    } else {
        set_from_environment(c, "ENDPOINT", "otlp.profiles_endpoint", s.endpoint, error);
        inherit(c, "PROTOCOL", "otlp.protocol", s.protocol == OTLP_GRPC ? "grpc" : "http/protobuf", error);
        check_environment_endpoint(c, error);
        inherit(c, "HEADERS", "otlp.headers", s.headers, error);
        inherit(c, "CLIENT_CERTIFICATE", "otlp.client_certificate", s.client_certificate, error);
        inherit(c, "CLIENT_KEY", "otlp.client_key", s.client_key, error);
        set_from_environment(c, "CERTIFICATE", "otlp.certificate", s.certificate, error);
        set_from_environment(c, "COMPRESSION", "otlp.compression", s.uncompressed ? "none" : "", error);
        c->otlp_timeout_ms = s.timeout_ms;
        if (!c->otlp_profiles_endpoint[0])
            drop_inherited(c);
    }
    otlp_settings_free(&s);
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

/* State of the YAML event reader. */
struct reader {
    struct config *config;
    const char *path;
    char *error;
    char section[64]; /* "budget" */
    char key[64];     /* "cpu", while its value is expected */
    int depth;        /* of nested mappings */
    bool seen[sizeof(keys) / sizeof(keys[0])];
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
        char known[KNOWN_BYTES], prefix[80];
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
    case KEY_ADDRESS:
    case KEY_HOSTS:
    case KEY_CHOICE:
    case KEY_TEXT:
    case KEY_SAMPLING_RULES:
    case KEY_LABELS:
        snprintf(ret->value, sizeof(ret->value), "%s", (const char *)field);
        break;
    case KEY_URL:
        otlp_url_shown(field, ret->value);
        ret->is_cut = strcmp(ret->value, field) != 0;
        break;
    case KEY_SECRET:
        ret->is_cut = *(const char *)field;
        snprintf(ret->value, sizeof(ret->value), "%s", ret->is_cut ? NOT_SHOWN : "");
        break;
    }
    return true;
}
