/* Configuration: one table of keys for the YAML file, for `--set KEY=VALUE`, for the documentation. A file is taken
 * whole or refused with the file, the line, the key and what is allowed there. Plain data once loaded; passed on as
 * `const struct config`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampling_rules;

struct config {
    bool profile_enabled;
    int64_t profile_rate_hz;
    char profile_sampling_rules[2048]; /* see sources/sampling/sampling_rules.h */
    bool requests_enabled;
    bool links_enabled;
    bool off_cpu_enabled;
    double budget_cpu_share;      /* of the whole machine */
    uint64_t budget_memory_bytes; /* resident + BPF */
    char page_listen[128];
    char page_allowed_hosts[512];
    char otlp_profiles_endpoint[1024];                                              /* "": nothing is sent */
    char otlp_headers[4096];                                                        /* "name=value,...", secrets */
    char otlp_certificate[512], otlp_client_certificate[512], otlp_client_key[512]; /* paths */
    char otlp_protocol[16], otlp_compression[8], otlp_timestamp_resolution[8];
    bool otlp_system_names;
    int64_t otlp_timeout_ms, otlp_interval_s;
    char kubernetes_cri_socket[108]; /* "": the usual ones */
    char kubernetes_pod_labels[512];
    char log_level[16];
    uint32_t inherited; /* rows of the table of keys: of the environment, for its endpoint and no other */
};

#define CONFIG_PATH        "/etc/sonde/sonde.yaml" /* where no other is given */
#define CONFIG_ERROR_BYTES 1024

void config_defaults(struct config *c);

/* What OTEL_EXPORTER_OTLP_... of the environment say, below any file. A receiver that cannot be one is left out, and
 * the reason stands in `error` ("": none), for people: variables are often set for other programs. Who sets the
 * endpoint later does not send there what the environment says for its own: headers, and the certificate of who we are.
 */
void config_environment(struct config *c, char error[CONFIG_ERROR_BYTES]);

/* Changes `c` only when the whole file is good. On failure -errno, and the reason for people in `error`. */
int config_load(struct config *c, const char *path, char error[CONFIG_ERROR_BYTES]);

/* `where` is what the message begins with: "--rate", "sonde.yaml:3". On failure `c` may hold a part of the value. */
int config_set_value(struct config *c, const char *where, const char *name, const char *value,
                     char error[CONFIG_ERROR_BYTES]);
#define CONFIG_RATE_HZ 19 /* of who does not choose one */
/* Who is sampled at another rate than profile_rate_hz. Returns the rate at which the clock has to tick for that, in Hz;
 * 0: nobody is sampled. */
uint32_t config_sampling_rules(const struct config *c, struct sampling_rules *ret);
/* Names of the labels of pods that are to be known, for pods_read: those that samples are to have and those that
 * rules are asked by. -E2BIG: they are more than PODS_LABELS_MAX. */
#define CONFIG_POD_LABELS_BYTES 2560 /* of as many at their longest */
int config_pod_labels(const struct config *c, char ret[CONFIG_POD_LABELS_BYTES]);
/* Whether profiles are sent by gRPC. */
bool config_is_grpc(const struct config *c);
/* In which steps they tell when a sample was; 0: to the nanosecond. False: not at all. */
bool config_timestamp_step(const struct config *c, uint64_t *ret_ns);

/* "budget.cpu=2%". */
int config_set(struct config *c, const char *assignment, char error[CONFIG_ERROR_BYTES]);

/* The table, for --help and the manual: false when `i` is past the end. */
struct config_key_description {
    const char *key, *allowed, *help;
    char value[2048]; /* as in `c`; but of URLs no passwords, and of secrets nothing */
    bool is_cut;      /* so it is not what a file would have to say */
};
bool config_describe(const struct config *c, size_t i, struct config_key_description *ret);
