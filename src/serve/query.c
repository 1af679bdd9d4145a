/* Parameters of API calls; see query.h. */
#include "serve/query.h"

#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS_MAX        INT64_C(9000000000000) /* still fits in nanoseconds: 285 years of uptime */
#define REGION_MAX_MS 3600000

static const char *const key_names[QUERY_KEY_COUNT] = {
    [QUERY_SECONDS] = "seconds",
    [QUERY_PID] = "pid",
    [QUERY_CONTAINER] = "container",
    [QUERY_SERVICE] = "service",
    [QUERY_FORMAT] = "format",
    [QUERY_MAX] = "max",
    [QUERY_FROM] = "from",
    [QUERY_TO] = "to",
    [QUERY_BASELINE_FROM] = "baseline_from",
    [QUERY_BASELINE_TO] = "baseline_to",
    [QUERY_TIME] = "time",
    [QUERY_BY] = "by",
    [QUERY_ORDER] = "order",
    [QUERY_WHICH] = "which",
};

void query_init(struct query *q, unsigned allowed)
{
    *q = (struct query){.allowed = allowed, .seconds = 60, .max = 50, .format = "json", .type = &sample_type_cpu};
}

static int parse_number(const char *value, int64_t min, int64_t max, int64_t *ret)
{
    if (!isdigit((unsigned char)value[0]))
        return -EINVAL;
    return units_parse_integer(value, min, max, ret);
}

static int set_number(const char *name, const char *value, int64_t min, int64_t max, int64_t *ret, char *why,
                      size_t why_size)
{
    if (parse_number(value, min, max, ret) == 0)
        return 0;
    snprintf(why, why_size, "%s: a whole number from %lld to %lld is needed", name, (long long)min, (long long)max);
    return -EINVAL;
}

static int set_container(struct query *q, const char *value, char *why, size_t why_size)
{
    size_t size = strlen(value);
    if (size < 12 || size > 64 || strspn(value, "0123456789abcdef") != size) {
        snprintf(why, why_size, "container: the first 12 to 64 hexadecimal digits of a container's id are needed");
        return -EINVAL;
    }
    memcpy(q->container, value, size + 1);
    return 0;
}

static int set_service(struct query *q, const char *value, char *why, size_t why_size)
{
    bool control = false;
    for (const char *c = value; *c; c++)
        control |= iscntrl((unsigned char)*c) != 0;
    if (!*value || control) {
        snprintf(why, why_size, "service: the name of a service is needed, without control characters");
        return -EINVAL;
    }
    memcpy(q->service, value, strlen(value) + 1);
    return 0;
}

/* Checks the syntax only: the caller knows which formats exist. */
static int set_format(struct query *q, const char *value, char *why, size_t why_size)
{
    size_t size = strlen(value);
    if (size == 0 || size >= sizeof(q->format) || strspn(value, "abcdefghijklmnopqrstuvwxyz") != size) {
        snprintf(why, why_size, "format: the name of an export format is needed, such as json, pprof, folded or html");
        return -EINVAL;
    }
    memcpy(q->format, value, size + 1);
    return 0;
}

static int set_ms(enum query_key key, const char *value, uint64_t *ret, char *why, size_t why_size)
{
    int64_t number;
    int r = set_number(key_names[key], value, 0, MS_MAX, &number, why, why_size);
    if (r == 0)
        *ret = (uint64_t)number;
    return r;
}

/* Parses a value that is either `no` or `yes`. */
static int set_choice(enum query_key key, const char *value, const char *no, const char *yes, bool *ret, char *why,
                      size_t why_size)
{
    *ret = strcmp(value, yes) == 0;
    if (*ret || strcmp(value, no) == 0)
        return 0;
    snprintf(why, why_size, "%s: %s or %s is needed", key_names[key], no, yes);
    return -EINVAL;
}

static int set_which(const char *value, enum request_choice *ret, char *why, size_t why_size)
{
    for (int choice = 0; choice < REQUEST_CHOICE_COUNT; choice++)
        if (strcmp(value, request_choice_name((enum request_choice)choice)) == 0) {
            *ret = (enum request_choice)choice;
            return 0;
        }
    snprintf(why, why_size, "which: all, abnormal, groups or abnormal_groups is needed");
    return -EINVAL;
}

static int set_time(struct query *q, const char *value, char *why, size_t why_size)
{
    const struct sample_type *type = sample_type_find(value);
    if (!type) {
        snprintf(why, why_size, "time: cpu, off_cpu or wall (both) is needed");
        return -EINVAL;
    }
    q->type = type;
    return 0;
}

static int set_value(struct query *q, enum query_key key, const char *value, char *why, size_t why_size)
{
    int64_t number;
    int r;
    switch (key) {
    case QUERY_SECONDS:
        r = set_number("seconds", value, 1, 3600, &number, why, why_size);
        if (r == 0)
            q->seconds = (uint64_t)number;
        return r;
    case QUERY_PID:
        r = set_number("pid", value, 1, INT32_MAX, &number, why, why_size);
        if (r == 0)
            q->pid = (uint32_t)number;
        return r;
    case QUERY_MAX:
        r = set_number("max", value, 1, 1000, &number, why, why_size);
        if (r == 0)
            q->max = (uint32_t)number;
        return r;
    case QUERY_CONTAINER:
        return set_container(q, value, why, why_size);
    case QUERY_SERVICE:
        return set_service(q, value, why, why_size);
    case QUERY_FORMAT:
        return set_format(q, value, why, why_size);
    case QUERY_FROM:
        return set_ms(key, value, &q->region.from_ms, why, why_size);
    case QUERY_TO:
        return set_ms(key, value, &q->region.to_ms, why, why_size);
    case QUERY_BASELINE_FROM:
        return set_ms(key, value, &q->baseline.from_ms, why, why_size);
    case QUERY_BASELINE_TO:
        return set_ms(key, value, &q->baseline.to_ms, why, why_size);
    case QUERY_BY:
        return set_choice(key, value, "self", "total", &q->by_total, why, why_size);
    case QUERY_ORDER:
        return set_choice(key, value, "most", "change", &q->by_change, why, why_size);
    case QUERY_WHICH:
        return set_which(value, &q->which, why, why_size);
    case QUERY_TIME:
        return set_time(q, value, why, why_size);
    case QUERY_KEY_COUNT:
        break;
    }
    return -EINVAL;
}

static void list_allowed(const struct query *q, char *why, size_t why_size)
{
    int used = snprintf(why, why_size, "unknown parameter; this address knows:");
    const char *separator = " ";
    for (int k = 0; k < QUERY_KEY_COUNT && used > 0 && (size_t)used < why_size; k++)
        if (q->allowed & QUERY_BIT(k)) {
            used += snprintf(why + used, why_size - (size_t)used, "%s%s", separator, key_names[k]);
            separator = ", ";
        }
    if (!q->allowed)
        snprintf(why, why_size, "this address takes no parameters");
}

int query_set(struct query *q, const char *key, size_t key_size, const char *value, size_t value_size, char *ret_why,
              size_t why_size)
{
    char text[QUERY_TEXT_MAX];
    int k = 0;
    while (k < QUERY_KEY_COUNT && !((q->allowed & QUERY_BIT(k)) && strlen(key_names[k]) == key_size &&
                                    memcmp(key_names[k], key, key_size) == 0))
        k++;
    if (k == QUERY_KEY_COUNT) {
        list_allowed(q, ret_why, why_size);
        return -EINVAL;
    }
    if (q->seen & QUERY_BIT(k)) {
        snprintf(ret_why, why_size, "%s: given twice", key_names[k]);
        return -EINVAL;
    }
    if (!value || value_size >= sizeof(text) || (value_size && memchr(value, '\0', value_size))) {
        snprintf(ret_why, why_size, "%s: a value of at most %zu characters is needed", key_names[k], sizeof(text) - 1);
        return -EINVAL;
    }
    if (value_size)
        memcpy(text, value, value_size);
    text[value_size] = '\0';
    q->seen |= QUERY_BIT(k);
    return set_value(q, (enum query_key)k, text, ret_why, why_size);
}

static int check_region(const struct query *q, enum query_key from, enum query_key to,
                        const struct query_region *region, char *why, size_t why_size)
{
    if (query_has(q, from) != query_has(q, to))
        snprintf(why, why_size, "%s and %s: one needs the other", key_names[from], key_names[to]);
    else if (query_has(q, from) && region->to_ms <= region->from_ms)
        snprintf(why, why_size, "%s: has to be later than %s", key_names[to], key_names[from]);
    else if (region->to_ms - region->from_ms > REGION_MAX_MS)
        snprintf(why, why_size, "%s: at most %d ms later than %s", key_names[to], REGION_MAX_MS, key_names[from]);
    else
        return 0;
    return -EINVAL;
}

int query_check(const struct query *q, unsigned needed, char *ret_why, size_t why_size)
{
    for (int k = 0; k < QUERY_KEY_COUNT; k++)
        if ((needed & QUERY_BIT(k)) && !query_has(q, (enum query_key)k)) {
            snprintf(ret_why, why_size, "%s: is needed here", key_names[k]);
            return -EINVAL;
        }
    if (query_has(q, QUERY_SECONDS) && query_has(q, QUERY_FROM)) {
        snprintf(ret_why, why_size, "seconds: not together with from and to");
        return -EINVAL;
    }
    int r = check_region(q, QUERY_FROM, QUERY_TO, &q->region, ret_why, why_size);
    return r < 0 ? r : check_region(q, QUERY_BASELINE_FROM, QUERY_BASELINE_TO, &q->baseline, ret_why, why_size);
}
