/* The table of keys, and values by key: see config.h. */
#include "config/config_private.h"

#include "base/cleanup.h"
#include "config/budget_default.h"
#include "model/agent_place.h"
#include "otlp/settings.h"
#include "otlp/transport.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rules.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHOWN_MAX 60 /* bytes of an invalid value in a message */

#define FIELD(f)  offsetof(struct config, f), sizeof(((struct config *)0)->f)

static const struct setting core_keys[] = {
    {"profile.rate", SETTING_INTEGER, FIELD(profile_rate_hz), 0, 1000, "a whole number of Hz, 0 to 1000",
     "CPU samples per second and CPU; 0: only where profile.sampling_rules match"},
    {"profile.sampling_rules", SETTING_SAMPLING_RULES, FIELD(profile_sampling_rules), 0, 0,
     "at most 32 of SELECTOR=VALUE:HZ, separated by commas, each selector once: pid, cgroup, container, pod, pod-label, command or user; 0 to 1000 Hz; such as command=mlserver:99, pod-label=app=web:49, user=backup:0",
     "processes to sample at other rates; the first matching rule applies"},
    {"budget.one_cpu", SETTING_PERCENT, FIELD(budget_one_cpu_share), 0.0001, 100,
     "a share of one CPU, 0.01% to 10000%, such as 5%",
     "CPU limit of Sonde, including its BPF programs; the default depends on the number of CPUs"},
    {"budget.memory", SETTING_SIZE, FIELD(budget_memory_bytes), 48 << 20, 1e12,
     "a size of at least 48MiB, such as 64MiB",
     "memory limit of Sonde, including BPF maps; the default depends on the number of CPUs"},
    {"page.listen", SETTING_ADDRESS, FIELD(page_listen), 0, 0,
     "ADDRESS:PORT, such as 127.0.0.1:7070 or [::1]:7070, or none", "where the page is served"},
    {"page.socket", SETTING_SOCKET, FIELD(page_socket), 0, 0, "an absolute path, at most 107 bytes, or none",
     "Unix socket where the page is also served, to those who may write to it"},
    {"page.socket_mode", SETTING_CHOICE, FIELD(page_socket_mode), 0, 0, "0600, 0660, 0666",
     "rights on page.socket: its owner, its group too, or all users"},
    {"page.socket_group", SETTING_TEXT, FIELD(page_socket_group), 0, 0, "the name of a group, or nothing",
     "group of page.socket; nothing: the group sonde if there is one"},
    {"page.token_file", SETTING_TEXT, FIELD(page_token_file), 0, 0, "a path, or nothing",
     "file of hashed tokens; clients of page.listen then need a token (`sonde token new`)"},
    {"page.tls_certificate", SETTING_TEXT, FIELD(page_tls_certificate), 0, 0, "a path, or nothing",
     "file of the page's TLS certificate and its issuers, in PEM; page.listen then speaks HTTPS"},
    {"page.tls_key", SETTING_TEXT, FIELD(page_tls_key), 0, 0, "a path, or nothing",
     "file of the key of page.tls_certificate, in PEM"},
    {"page.open", SETTING_BOOL, FIELD(page_open), 0, 0, "true or false",
     "allow everybody who reaches page.listen to read, where it is no loopback address, without a token"},
    {"page.allowed_hosts", SETTING_HOSTS, FIELD(page_allowed_hosts), 0, 0,
     "names or addresses of hosts, each with a port or for any, separated by commas, such as sonde.example.org, localhost:8080, [::1]:8080",
     "additional host names that browsers may use (reverse proxies)"},
    {"otlp.profiles_endpoint", SETTING_URL, FIELD(otlp_profiles_endpoint), 0, 0,
     "a URL of http or https, such as http://collector:4318/v1development/profiles, or nothing",
     "where profiles are sent to, as OTLP"},
    {"otlp.metrics_endpoint", SETTING_URL, FIELD(otlp_metrics_endpoint), 0, 0,
     "a URL of http or https, such as http://collector:4318/v1/metrics, or nothing",
     "where the metrics of /metrics are sent to, as OTLP"},
    {"otlp.traces_endpoint", SETTING_URL, FIELD(otlp_traces_endpoint), 0, 0,
     "a URL of http or https, such as http://collector:4318/v1/traces, or nothing",
     "where requests are sent to as spans, as OTLP"},
    {"otlp.logs_endpoint", SETTING_URL, FIELD(otlp_logs_endpoint), 0, 0,
     "a URL of http or https, such as http://collector:4318/v1/logs, or nothing",
     "where events of the node are sent to as log records, as OTLP"},
    {"otlp.captures_endpoint", SETTING_URL, FIELD(otlp_captures_endpoint), 0, 0,
     "a URL of http or https, such as http://centre:4318/v1development/profiles, or nothing",
     "where CPU profiles that the server of opamp.endpoint asks for are sent to; nothing: it cannot ask for any"},
    {"otlp.protocol", SETTING_CHOICE, FIELD(otlp_protocol), 0, 0, "http/protobuf, grpc",
     "protocol of the receiver; a gRPC URL has no path: http://collector:4317"},
    {"otlp.interval", SETTING_INTEGER, FIELD(otlp_interval_s), 1, 300, "a whole number of seconds, 1 to 300",
     "time span of one exported profile"},
    {"otlp.metrics_interval", SETTING_INTEGER, FIELD(otlp_metrics_interval_s), 1, 300,
     "a whole number of seconds, 1 to 300", "time between two exports of metrics"},
    {"otlp.compression", SETTING_CHOICE, FIELD(otlp_compression), 0, 0, "gzip, zstd, none", "compression of packets"},
    {"otlp.timestamp_resolution", SETTING_CHOICE, FIELD(otlp_timestamp_resolution), 0, 0, "exact, 1ms, 17ms, 1s, none",
     "resolution of sample timestamps; none: equal samples are only counted"},
    {"otlp.system_names", SETTING_BOOL, FIELD(otlp_system_names), 0, 0, "true or false",
     "also send linker (mangled) names of functions where they differ (C++, Rust)"},
    {"otlp.timeout", SETTING_INTEGER, FIELD(otlp_timeout_ms), 1, 600000, "a whole number of milliseconds, 1 to 600000",
     "timeout of one attempt to deliver a packet"},
    {"otlp.headers", SETTING_SECRET, FIELD(otlp_headers), 0, 0, "name=value,..., values percent-encoded",
     "HTTP headers sent with each packet; never shown"},
    {"otlp.resource_attributes", SETTING_ATTRIBUTES, FIELD(otlp_resource_attributes), 0, 0,
     "at most 16 of name=value, separated by commas, values percent-encoded, such as deployment.environment.name=prod",
     "attributes of this node, added to the resources of exported metrics, spans and events"},
    {"otlp.certificate", SETTING_TEXT, FIELD(otlp_certificate), 0, 0, "a path",
     "file of trusted CA certificates, instead of the system's"},
    {"otlp.client_certificate", SETTING_TEXT, FIELD(otlp_client_certificate), 0, 0, "a path",
     "file of the client certificate"},
    {"otlp.client_key", SETTING_TEXT, FIELD(otlp_client_key), 0, 0, "a path", "file of the client certificate's key"},
    {"opamp.endpoint", SETTING_URL, FIELD(opamp_endpoint), 0, 0,
     "a URL of http or https, such as https://centre:4318/v1/opamp, or nothing",
     "server that the agent reports its health and configuration to, by OpAMP"},
    {"opamp.headers", SETTING_SECRET, FIELD(opamp_headers), 0, 0, "name=value,..., values percent-encoded",
     "HTTP headers sent with each report; never shown"},
    {"opamp.interval", SETTING_INTEGER, FIELD(opamp_interval_s), 1, 300, "a whole number of seconds, 1 to 300",
     "time between two reports"},
    {"kubernetes.cri_socket", SETTING_TEXT, FIELD(kubernetes_cri_socket), 0, 0, "a path, or nothing",
     "socket of the container runtime, queried for pod names; nothing: the default paths"},
    {"kubernetes.pod_labels", SETTING_LABELS, FIELD(kubernetes_pod_labels), 0, 0,
     "names of labels, 16 at most, of at most 111 bytes each, separated by commas, such as app.kubernetes.io/name,tier",
     "pod labels to attach to samples"},
    {"log.level", SETTING_CHOICE, FIELD(log_level), 0, 0, "error, warning, info, debug", "how much is logged"},
};

#define CORE_KEYS array_size(core_keys)
_Static_assert(CORE_KEYS <= 64, "bits of config.inherited");

void config_defaults(struct config *c)
{
    *c = (struct config){
        .profile_rate_hz = CONFIG_RATE_HZ,
        .budget_one_cpu_share = budget_default_one_cpu_share(sysconf(_SC_NPROCESSORS_ONLN)),
        .budget_memory_bytes = budget_default_memory_bytes(sysconf(_SC_NPROCESSORS_CONF)),
        .page_listen = AGENT_LISTEN_ADDRESS,
        .page_socket = AGENT_SOCKET_PATH,
        .page_socket_mode = "0660",
        .otlp_protocol = "http/protobuf",
        .otlp_compression = "gzip",
        .otlp_timestamp_resolution = "1ms",
        .otlp_system_names = true,
        .otlp_timeout_ms = OTLP_TIMEOUT_MS,
        .otlp_interval_s = 60,
        .otlp_metrics_interval_s = 60,
        .opamp_interval_s = 10,
        .log_level = "info",
    };
    for (size_t i = 0; all_signals[i]; i++) {
        assert(all_signals[i]->settings_bytes <= SIGNAL_SETTINGS_MAX_BYTES);
        if (all_signals[i]->settings_bytes)
            memcpy(c->signals[i], all_signals[i]->defaults, all_signals[i]->settings_bytes);
    }
}

/* The keys of signals, which may be hidden, then the keys of the core. False: past the end. */
static bool raw_key(size_t number, struct config_key *ret)
{
    size_t first = 0;
    for (size_t i = 0; all_signals[i]; i++) {
        size_t count = 0;
        while (all_signals[i]->settings && all_signals[i]->settings[count].key)
            count++;
        if (number < first + count) {
            *ret = (struct config_key){&all_signals[i]->settings[number - first], number, i};
            return true;
        }
        first += count;
    }
    if (number >= first + CORE_KEYS)
        return false;
    *ret = (struct config_key){&core_keys[number - first], number, SIZE_MAX};
    return true;
}

static bool is_same_section(const char *a, const char *b)
{
    const size_t length = strcspn(a, ".");
    return length == strcspn(b, ".") && strncmp(a, b, length) == 0;
}

/* Key number `i` that files may set, where the keys of one section follow each other. */
static bool listed_key(size_t i, struct config_key *ret)
{
    struct config_key first, other;
    size_t listed = 0;
    for (size_t n = 0; raw_key(n, &first); n++) {
        bool is_first = true;
        for (size_t m = 0; m < n && is_first && raw_key(m, &other); m++)
            is_first = !is_same_section(other.setting->key, first.setting->key);
        for (size_t m = n; is_first && raw_key(m, ret); m++)
            if (is_same_section(ret->setting->key, first.setting->key) && ret->setting->help && listed++ == i)
                return true;
    }
    return false;
}

bool config_find_key(const char *name, struct config_key *ret)
{
    const struct renamed_key *renamed = config_find_renamed(name);
    name = renamed ? renamed->name : name;
    for (size_t i = 0; raw_key(i, ret); i++)
        if (strcmp(ret->setting->key, name) == 0)
            return true;
    return false;
}

static void *field_of(const struct config *c, const struct config_key *k)
{
    return (char *)(k->signal == SIZE_MAX ? (const unsigned char *)c : c->signals[k->signal]) + k->setting->offset;
}

const void *config_signal(const struct config *c, const struct signal *signal)
{
    if (!signal->settings_bytes)
        return NULL;
    for (size_t i = 0; c && all_signals[i]; i++)
        if (all_signals[i] == signal)
            return c->signals[i];
    return signal->defaults;
}

bool config_enables(const struct config *c, const struct signal *signal)
{
    const struct signal_settings *settings = config_signal(c, signal);
    for (const struct signal *const *served = signal->serves; served && *served; served++)
        if (!config_enables(c, *served))
            return false;
    return !settings || settings->enabled;
}

bool config_enables_any(const struct config *c, unsigned flags)
{
    for (size_t i = 0; all_signals[i]; i++)
        if (all_signals[i]->flags & flags && config_enables(c, all_signals[i]))
            return true;
    return false;
}

bool config_samples(const struct config *c)
{
    for (size_t i = 0; all_signals[i]; i++)
        if (all_signals[i]->sample_type && config_enables(c, all_signals[i]))
            return true;
    return false;
}

void config_enable_signals(struct config *c, bool enabled)
{
    for (size_t i = 0; all_signals[i]; i++)
        if (all_signals[i]->settings_bytes)
            ((struct signal_settings *)(void *)c->signals[i])->enabled = enabled;
}

static void *known_field(const struct config *c, const char *key, enum setting_type type)
{
    struct config_key k;
    const bool is_known = config_find_key(key, &k);
    assert(is_known && k.setting->type == type);
    return is_known ? field_of(c, &k) : NULL;
}

bool config_bool(const struct config *c, const char *key)
{
    return *(const bool *)known_field(c, key, SETTING_BOOL);
}

void config_put_bool(struct config *c, const char *key, bool value)
{
    *(bool *)known_field(c, key, SETTING_BOOL) = value;
}

void config_put_duration(struct config *c, const char *key, uint64_t value_ns)
{
    *(uint64_t *)known_field(c, key, SETTING_DURATION) = value_ns;
}

void config_drop_inherited(struct config *c)
{
    struct config defaults;
    config_defaults(&defaults);
    for (size_t i = 0; i < CORE_KEYS; i++)
        if (c->inherited >> i & 1)
            memcpy((char *)c + core_keys[i].offset, (char *)&defaults + core_keys[i].offset, core_keys[i].size);
    c->inherited = 0;
}

void config_mark_inherited(struct config *c, const char *name)
{
    struct config_key key;
    if (config_find_key(name, &key))
        c->inherited |= 1ull << (key.setting - core_keys);
}

int config_set_value(struct config *c, const char *where, const char *name, const char *value,
                     char error[CONFIG_ERROR_BYTES])
{
    struct config_key key;
    char converted[CONFIG_CONVERTED_BYTES];
    if (!config_find_key(name, &key) || !key.setting->help) {
        config_unknown_error(c, where, name, error);
        return -EINVAL;
    }
    const struct renamed_key *renamed = config_find_renamed(name);
    if (renamed)
        value = config_convert_renamed(renamed, where, value, converted);
    const struct setting *k = key.setting;
    if (config_value_is_text(k) && strlen(value) >= k->size) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: %zu bytes are too many; allowed: %zu", where, name, strlen(value),
                 k->size - 1);
        return -EINVAL;
    }
    if (!config_value_set(k, field_of(c, &key), value) && (k->type == SETTING_SECRET || k->type == SETTING_URL)) {
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: the value is not allowed; allowed: %s", where, name, k->allowed);
        return -EINVAL;
    }
    if (!config_value_set(k, field_of(c, &key), value)) {
        int length = SHOWN_MAX;
        const char *bad = config_value_find_bad(k, value, &length);
        snprintf(error, CONFIG_ERROR_BYTES, "%s: %s: '%.*s' is not allowed; allowed: %s", where, name,
                 length < SHOWN_MAX ? length : SHOWN_MAX, bad ? bad : value, k->allowed);
        return -EINVAL;
    }
    if (key.signal == SIZE_MAX)
        c->inherited &= ~(1ull << (k - core_keys));
    if (k->type == SETTING_URL && is_same_section(k->key, "otlp."))
        config_drop_inherited(c);
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

char *config_endpoint(struct config *c, enum otlp_signal signal)
{
    char *const endpoints[] = {[OTLP_SIGNAL_TRACES] = c->otlp_traces_endpoint,
                               [OTLP_SIGNAL_METRICS] = c->otlp_metrics_endpoint,
                               [OTLP_SIGNAL_PROFILES] = c->otlp_profiles_endpoint,
                               [OTLP_SIGNAL_LOGS] = c->otlp_logs_endpoint};
    return endpoints[signal];
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

bool config_describe(const struct config *c, size_t i, struct config_key_description *ret)
{
    struct config_key key;
    if (!listed_key(i, &key))
        return false;
    const struct setting *k = key.setting;
    const void *field = field_of(c, &key);
    *ret = (struct config_key_description){.key = k->key, .allowed = k->allowed, .help = k->help};
    ret->is_cut = config_value_print(k, field, ret->value, sizeof(ret->value));
    return true;
}

bool config_compare(const struct config *a, const struct config *b, size_t i, const char **ret_key, bool *ret_is_same)
{
    struct config_key key;
    if (!listed_key(i, &key))
        return false;
    const void *x = field_of(a, &key), *y = field_of(b, &key);
    *ret_key = key.setting->key;
    *ret_is_same = config_value_is_string(key.setting) ? strcmp(x, y) == 0 : memcmp(x, y, key.setting->size) == 0;
    return true;
}
