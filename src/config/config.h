/* Configuration: one table of keys, the signals' own among them, for the YAML file, for `--set KEY=VALUE` and for the
 * documentation. A file is
 * accepted as a whole or rejected with file, line, key and allowed values. Plain data after loading; passed on as
 * `const struct config`. */
#pragma once

#include "base/buf.h"
#include "otlp/settings.h"
#include "signals/signals.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampling_rules;

struct config {
    int64_t profile_rate_hz;
    char profile_sampling_rules[2048]; /* see sources/sampling/sampling_rules.h */
    double budget_one_cpu_share;       /* 0.05: 5 % of one CPU */
    uint64_t budget_memory_bytes;      /* resident memory plus BPF maps */
    char page_listen[128];             /* or "none"; so too for the socket */
    char page_socket[108], page_socket_mode[8], page_socket_group[64];
    char page_token_file[512], page_tls_certificate[512], page_tls_key[512];
    bool page_open;
    char page_allowed_hosts[512];
    char otlp_profiles_endpoint[1024], otlp_metrics_endpoint[1024]; /* "": no export; so too for the next */
    char otlp_traces_endpoint[1024], otlp_logs_endpoint[1024];
    char otlp_captures_endpoint[1024];                                              /* "": no captures are taken */
    char otlp_headers[4096];                                                        /* "name=value,...", secrets */
    char otlp_resource_attributes[1024];                                            /* a valid attribute_list */
    char otlp_certificate[512], otlp_client_certificate[512], otlp_client_key[512]; /* paths */
    char otlp_protocol[16], otlp_compression[8], otlp_timestamp_resolution[8];
    bool otlp_system_names;
    int64_t otlp_timeout_ms, otlp_interval_s, otlp_metrics_interval_s;
    char opamp_endpoint[1024]; /* "": no server */
    char opamp_headers[4096];  /* as otlp_headers */
    int64_t opamp_interval_s;
    char kubernetes_cri_socket[108]; /* "": the default paths */
    char kubernetes_pod_labels[512];
    char log_level[16];
    uint64_t inherited; /* bit mask of keys in the table: inherited from the environment, valid for the
                         * environment's endpoint only */
    _Alignas(8) unsigned char signals[SIGNALS_MAX][SIGNAL_SETTINGS_MAX_BYTES]; /* read by config_signal */
};

#define CONFIG_PATH        "/etc/sonde/sonde.yaml" /* if no other path is given */
#define CONFIG_ERROR_BYTES 1536

/* Sets every value to its default. */
void config_defaults(struct config *c);

/* A signal's own settings, borrowed: a struct of its type. `c` NULL: the defaults. NULL: it has none. */
const void *config_signal(const struct config *c, const struct signal *signal);

/* Whether this signal is enabled; one without settings always is. `c` as above. */
bool config_enables(const struct config *c, const struct signal *signal);

/* Whether a signal with one of `flags` (enum signal_flags) is enabled. */
bool config_enables_any(const struct config *c, unsigned flags);

/* Whether a signal that provides samples is enabled. */
bool config_samples(const struct config *c);

/* Enables or disables all signals that have settings. */
void config_enable_signals(struct config *c, bool enabled);

/* Reads or sets one value by its key, which must exist and have the type. Also for keys that files may not set. */
bool config_bool(const struct config *c, const char *key);
void config_put_bool(struct config *c, const char *key, bool value);
void config_put_duration(struct config *c, const char *key, uint64_t value_ns);

/* Applies OTEL_EXPORTER_OTLP_... of the environment: the endpoints of profiles, metrics, spans and logs, and the
 * settings that they share. Any file overrides it. An unusable endpoint is ignored, and `error` holds the reason ("":
 * none), because these variables are often set for other programs. If another endpoint is configured later, the headers
 * and the client certificate of the environment are dropped and never sent to it. */
void config_environment(struct config *c, char error[CONFIG_ERROR_BYTES]);

/* Loads a file. Changes `c` only if the whole file is valid. On failure -errno, with the message in `error`. */
int config_load(struct config *c, const char *path, char error[CONFIG_ERROR_BYTES]);

/* Sets one key. `where` is the prefix of the error message: "--rate", "sonde.yaml:3". -EINVAL: an unknown key or a
 * value that is not allowed, with the message in `error`; `c` may be partly changed. */
int config_set_value(struct config *c, const char *where, const char *name, const char *value,
                     char error[CONFIG_ERROR_BYTES]);
#define CONFIG_RATE_HZ 19 /* the default of profile.rate */
/* Parses the sampling rules of `c`, which were validated when they were set. Returns the tick rate in Hz that the
 * sampling clock needs for the rules and profile_rate_hz; 0: nothing is sampled. */
uint32_t config_sampling_rules(const struct config *c, struct sampling_rules *ret);
/* Names of the pod labels to read, for pods_read: those that samples carry and those that rules refer to. 0; -E2BIG:
 * more than PODS_LABELS_MAX, and `ret` has only some. */
#define CONFIG_POD_LABELS_BYTES 2560 /* PODS_LABELS_MAX names of maximum length */
int config_pod_labels(const struct config *c, char ret[CONFIG_POD_LABELS_BYTES]);
/* Whether a setting that can be "none" has another value. */
bool config_is_given(const char *value);
/* Where a signal is sent; "": nowhere. Of `c`, which the caller may change. */
char *config_endpoint(struct config *c, enum otlp_signal signal);
/* Whether profiles, metrics, spans and logs are sent over gRPC. */
bool config_is_grpc(const struct config *c);
/* The resolution of sample timestamps in exported profiles; 0: nanoseconds. False: profiles have no timestamps. */
bool config_timestamp_step(const struct config *c, uint64_t *ret_ns);

/* Applies an assignment such as "budget.one_cpu=2%". As config_set_value; -EINVAL also without "=". On failure `c` is
 * unchanged. */
int config_set(struct config *c, const char *assignment, char error[CONFIG_ERROR_BYTES]);

/* One entry of the key table, for --help and the manual; false if `i` is past the end. */
struct config_key_description {
    const char *key, *allowed, *help;
    char value[2048]; /* the current value; passwords in URLs and secrets are removed */
    bool is_cut;      /* the value was redacted, so it is not valid in a file */
};
/* Whether entry `i` of the key table, in the same order, has the same value in both, secrets included; false if `i` is
 * past the end. */
bool config_compare(const struct config *a, const struct config *b, size_t i, const char **ret_key, bool *ret_is_same);
bool config_describe(const struct config *c, size_t i, struct config_key_description *ret);
/* Appends all keys as YAML that config_load accepts, with the allowed values as comments; secrets are left out. */
void config_put_text(const struct config *c, struct buf *out);
