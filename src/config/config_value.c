/* Checks, stores and prints the value of one setting; see config_private.h. */
#include "config/config_private.h"

#include "base/address.h"
#include "base/host_name.h"
#include "base/units.h"
#include "model/attribute_list.h"
#include "otlp/settings.h"
#include "otlp/transport.h"
#include "resolve/process/pods.h"
#include "sources/sampling/sampling_rules.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#define NOT_SHOWN "(not shown)" /* shown for a secret; not a valid secret itself */
#define NONE      "none"

bool config_is_given(const char *value)
{
    return strcmp(value, NONE) != 0;
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

static bool is_listen_address(const char *value)
{
    union address address;
    socklen_t size;
    return strcmp(value, NONE) == 0 || address_parse(value, &address, &size) == 0;
}

static bool is_socket_path(const char *value)
{
    return strcmp(value, NONE) == 0 || (value[0] == '/' && strlen(value) < sizeof(((struct sockaddr_un *)0)->sun_path));
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

bool config_value_is_string(const struct setting *k)
{
    return k->type == SETTING_CHOICE || config_value_is_text(k);
}

bool config_value_is_text(const struct setting *k)
{
    return k->type == SETTING_ADDRESS || k->type == SETTING_SOCKET || k->type == SETTING_HOSTS ||
           k->type == SETTING_SAMPLING_RULES || k->type == SETTING_URL || k->type == SETTING_TEXT ||
           k->type == SETTING_SECRET || k->type == SETTING_LABELS || k->type == SETTING_ATTRIBUTES;
}

bool config_value_set(const struct setting *k, void *field, const char *value)
{
    switch (k->type) {
    case SETTING_BOOL:
        *(bool *)field = strcmp(value, "true") == 0;
        return strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    case SETTING_INTEGER:
        return units_parse_integer(value, (int64_t)k->min, (int64_t)k->max, field) == 0;
    case SETTING_PERCENT:
        return units_parse_percent(value, field) == 0 && *(double *)field >= k->min && *(double *)field <= k->max;
    case SETTING_SIZE: {
        uint64_t *bytes = field;
        return units_parse_size_bytes(value, bytes) == 0 && *bytes >= (uint64_t)k->min && *bytes <= (uint64_t)k->max;
    }
    case SETTING_DURATION: {
        uint64_t *ns = field;
        return units_parse_duration_ns(value, ns) == 0 && *ns >= (uint64_t)k->min && *ns <= (uint64_t)k->max;
    }
    case SETTING_CHOICE:
    case SETTING_ADDRESS:
    case SETTING_SOCKET:
    case SETTING_HOSTS:
    case SETTING_URL:
    case SETTING_TEXT:
    case SETTING_SECRET:
    case SETTING_SAMPLING_RULES:
    case SETTING_LABELS:
    case SETTING_ATTRIBUTES:
        if (k->type == SETTING_ATTRIBUTES && !attribute_list_is_valid(value))
            return false;
        if (k->type == SETTING_LABELS && !pods_check_keys(value))
            return false;
        if (k->type == SETTING_URL && value[0] && !is_url(value))
            return false;
        if ((k->type == SETTING_TEXT || k->type == SETTING_SECRET || k->type == SETTING_SAMPLING_RULES ||
             k->type == SETTING_SOCKET) &&
            !is_plain(value))
            return false;
        if (k->type == SETTING_SECRET && strcmp(value, NOT_SHOWN) == 0)
            return false;
        if (k->type == SETTING_CHOICE && !is_choice(k->allowed, value))
            return false;
        if (k->type == SETTING_ADDRESS && !is_listen_address(value))
            return false;
        if (k->type == SETTING_SOCKET && !is_socket_path(value))
            return false;
        if (k->type == SETTING_HOSTS && find_bad_host(value, &(int){0}))
            return false;
        if (k->type == SETTING_SAMPLING_RULES && find_bad_sampling_rule(value, &(int){0}))
            return false;
        memcpy(field, value, strlen(value) + 1);
        return true;
    }
    return false;
}

const char *config_value_find_bad(const struct setting *k, const char *value, int *ret_length)
{
    return k->type == SETTING_HOSTS            ? find_bad_host(value, ret_length)
           : k->type == SETTING_SAMPLING_RULES ? find_bad_sampling_rule(value, ret_length)
                                               : NULL;
}

/* In the largest unit that units_parse_duration_ns reads back to exactly `ns`, but no larger than milliseconds. */
static void print_duration(uint64_t ns, char *ret, size_t size)
{
    const char *unit = ns % 1000 ? "ns" : ns % 1000000 ? "us" : "ms";
    const uint64_t unit_ns = ns % 1000 ? 1 : ns % 1000000 ? 1000 : 1000000;
    snprintf(ret, size, "%llu%s", (unsigned long long)(ns / unit_ns), unit);
}

bool config_value_print(const struct setting *k, const void *field, char *ret, size_t size)
{
    char shown[OTLP_URL_SHOWN_SIZE];
    switch (k->type) {
    case SETTING_BOOL:
        snprintf(ret, size, "%s", *(const bool *)field ? "true" : "false");
        break;
    case SETTING_INTEGER:
        snprintf(ret, size, "%lld", (long long)*(const int64_t *)field);
        break;
    case SETTING_PERCENT:
        snprintf(ret, size, "%g%%", *(const double *)field * 100);
        break;
    case SETTING_SIZE:
        snprintf(ret, size, "%lluMiB", (unsigned long long)(*(const uint64_t *)field >> 20));
        break;
    case SETTING_DURATION:
        print_duration(*(const uint64_t *)field, ret, size);
        break;
    case SETTING_ADDRESS:
    case SETTING_SOCKET:
    case SETTING_HOSTS:
    case SETTING_CHOICE:
    case SETTING_TEXT:
    case SETTING_SAMPLING_RULES:
    case SETTING_LABELS:
    case SETTING_ATTRIBUTES:
        snprintf(ret, size, "%s", (const char *)field);
        break;
    case SETTING_URL:
        otlp_url_shown(field, shown);
        snprintf(ret, size, "%s", shown);
        return strcmp(shown, field) != 0;
    case SETTING_SECRET:
        snprintf(ret, size, "%s", *(const char *)field ? NOT_SHOWN : "");
        return *(const char *)field;
    }
    return false;
}
