/* A libcupti.so.12 without a GPU: it calls subscribers at the calls that the fake driver names, and delivers the
 * records that it hands in. */
#include "fake_cupti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX  1024
#define INVALID    1
#define RECORD_MAX 256

int cuptiGetVersion(uint32_t *version);
int cuptiSubscribe(void **out, cupti_on_call *call, void *user);
int cuptiUnsubscribe(void *who);
int cuptiEnableCallback(uint32_t enable, void *who, uint32_t domain, uint32_t call);
int cuptiActivityRegisterCallbacks(cupti_on_request *request, cupti_on_complete *complete);
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flag);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_size, void **record);
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out);
int cuptiFinalize(void);

static struct fake_cupti fake = {.version = 28};
static pthread_once_t environment_read = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the buffer */
static cupti_on_call *on_call;
static void *user_data;
static atomic_bool enabled[3][CALLS_MAX];
static cupti_on_request *on_request;
static cupti_on_complete *on_complete;
static uint8_t *buffer;
static size_t buffer_size, used;

static void read_environment(void)
{
    const char *words = getenv("SONDE_FAKE_CUPTI"), *version = words ? strstr(words, "version=") : NULL;
    fake.other_subscriber = words && strstr(words, "subscribed");
    if (version)
        fake.version = (uint32_t)atoi(version + strlen("version="));
}

struct fake_cupti *fake_cupti(void)
{
    pthread_once(&environment_read, read_environment);
    return &fake;
}

int fake_cupti_is_subscribed(void)
{
    return fake.subscribed;
}

/* ---- subscribers ---- */

int cuptiGetVersion(uint32_t *version)
{
    *version = fake_cupti()->version;
    return CUPTI_OK;
}

int cuptiSubscribe(void **out, cupti_on_call *call, void *user)
{
    if (fake_cupti()->other_subscriber || fake.subscribed)
        return CUPTI_MULTIPLE_SUBSCRIBERS;
    fake.subscribed = true;
    on_call = call;
    user_data = user;
    *out = &fake;
    return CUPTI_OK;
}

int cuptiUnsubscribe(void *who)
{
    if (who != &fake || !fake.subscribed)
        return INVALID;
    fake.subscribed = false;
    fake.calls_enabled = 0;
    memset((void *)enabled, 0, sizeof(enabled));
    return CUPTI_OK;
}

int cuptiEnableCallback(uint32_t enable, void *who, uint32_t domain, uint32_t call)
{
    if (who != &fake || !fake.subscribed || domain > CUPTI_DOMAIN_RUNTIME || call >= CALLS_MAX)
        return INVALID;
    fake.calls_enabled += enable && !enabled[domain][call];
    enabled[domain][call] = enable;
    return CUPTI_OK;
}

void fake_cupti_call(uint32_t site, uint32_t domain, uint32_t call, uint32_t correlation)
{
    const struct cupti_call c = {.site = site, .correlation = correlation};
    if (fake.subscribed && enabled[domain][call])
        on_call(user_data, domain, call, &c);
}

int cuptiFinalize(void)
{
    fake.finalize_count++;
    for (size_t i = 0; i < FAKE_KINDS; i++)
        fake.kinds[i] = false;
    return CUPTI_OK;
}

/* ---- records ---- */

int cuptiActivityRegisterCallbacks(cupti_on_request *request, cupti_on_complete *complete)
{
    if (fake.register_error)
        return fake.register_error;
    on_request = request;
    on_complete = complete;
    return CUPTI_OK;
}

int cuptiActivityEnable(uint32_t kind)
{
    if (fake.enable_error[kind])
        return fake.enable_error[kind];
    fake.kinds[kind] = true;
    return CUPTI_OK;
}

int cuptiActivityDisable(uint32_t kind)
{
    fake.kinds[kind] = false;
    return CUPTI_OK;
}

/* A record of a buffer: its size, in a header of its own that only this file reads, then NVIDIA's. */
struct slot {
    uint64_t size;
    uint8_t record[];
};

static size_t slot_bytes(size_t size)
{
    return sizeof(struct slot) + ((size + 7) & ~(size_t)7);
}

/* Swaps the order of records of equal size. */
static void reverse(size_t size)
{
    uint8_t spare[RECORD_MAX];
    const size_t bytes = slot_bytes(size);
    for (size_t first = 0, last = used / bytes; first + 1 < last; first++, last--) {
        memcpy(spare, buffer + first * bytes, bytes);
        memcpy(buffer + first * bytes, buffer + (last - 1) * bytes, bytes);
        memcpy(buffer + (last - 1) * bytes, spare, bytes);
    }
}

/* With the lock held; gives it up for the callback. */
static void deliver(void)
{
    uint8_t *full = buffer;
    const size_t bytes = used, size = buffer_size;
    if (!full)
        return;
    if (fake.reversed && bytes)
        reverse(((struct slot *)full)->size);
    buffer = NULL;
    used = 0;
    pthread_mutex_unlock(&lock);
    on_complete(NULL, 0, full, size, bytes);
    pthread_mutex_lock(&lock);
}

int cuptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    if (fake.on_flush)
        fake.on_flush();
    pthread_mutex_lock(&lock);
    deliver();
    pthread_mutex_unlock(&lock);
    return CUPTI_OK;
}

void fake_cupti_add(const void *record, size_t size)
{
    size_t max_records = 0;
    if (!fake.kinds[*(const uint32_t *)record])
        return;
    pthread_mutex_lock(&lock);
    if (buffer && used + slot_bytes(size) > buffer_size)
        deliver();
    if (!buffer)
        on_request(&buffer, &buffer_size, &max_records);
    if (buffer) {
        struct slot *slot = (struct slot *)(buffer + used);
        slot->size = size;
        memcpy(slot->record, record, size);
        used += slot_bytes(size);
    } else {
        fake.no_buffer++;
    }
    pthread_mutex_unlock(&lock);
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t valid_size, void **record)
{
    size_t at = 0;
    if (*record) {
        struct slot *last = (struct slot *)((uint8_t *)*record - offsetof(struct slot, record));
        at = (size_t)((uint8_t *)last - from) + slot_bytes(last->size);
    }
    if (at >= valid_size)
        return CUPTI_MAX_LIMIT_REACHED;
    *record = ((struct slot *)(from + at))->record;
    return CUPTI_OK;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out)
{
    (void)context;
    (void)stream;
    *out = fake.to_drop;
    fake.to_drop = 0;
    return CUPTI_OK;
}
