/* A row a command, with its CPU time in slots of time; see cpu_users.h. */
#include "aggregate/cpu_users.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_NS (5 * 1000000000ull)
#define SLOTS   61 /* five minutes, and the one that is being filled */

struct row {
    char command[CPU_COMMAND_BYTES];
    uint64_t last_slot;
    uint64_t slots[SLOTS];
};

struct cpu_users {
    pthread_mutex_t lock;
    uint64_t first_ns, slot; /* time of the first sample; number of the slot that is being filled */
    size_t count;
    uint64_t all[SLOTS];
    struct row rows[CPU_USERS_MAX];
};

int cpu_users_new(struct cpu_users **ret)
{
    struct cpu_users *u = calloc(1, sizeof(*u));
    if (!u)
        return -ENOMEM;
    pthread_mutex_init(&u->lock, NULL);
    *ret = u;
    return 0;
}

void cpu_users_free(struct cpu_users *u)
{
    if (!u)
        return;
    pthread_mutex_destroy(&u->lock);
    free(u);
}

/* Clears the slots between the last one used and that of `now_ns`. */
static void advance_slots(struct cpu_users *u, uint64_t now_ns)
{
    const uint64_t slot = now_ns / SLOT_NS;
    for (uint64_t i = 0; u->slot < slot && i < SLOTS; i++) {
        u->slot = slot - u->slot > SLOTS ? slot - SLOTS + 1 : u->slot + 1;
        u->all[u->slot % SLOTS] = 0;
        for (size_t r = 0; r < u->count; r++)
            u->rows[r].slots[u->slot % SLOTS] = 0;
    }
}

static uint64_t sum_since(const struct cpu_users *u, const uint64_t slots[SLOTS], uint64_t first_slot)
{
    uint64_t sum = 0;
    for (uint64_t slot = first_slot; slot <= u->slot; slot++)
        sum += slots[slot % SLOTS];
    return sum;
}

/* A new command takes the row that was idle for longest; NULL: all had samples in this slot. */
static struct row *find_row(struct cpu_users *u, const char *command)
{
    struct row *idle = &u->rows[0];
    for (size_t r = 0; r < u->count; r++) {
        if (strncmp(u->rows[r].command, command, CPU_COMMAND_BYTES - 1) == 0)
            return &u->rows[r];
        if (u->rows[r].last_slot < idle->last_slot)
            idle = &u->rows[r];
    }
    struct row *row = u->count < CPU_USERS_MAX ? &u->rows[u->count++] : idle->last_slot < u->slot ? idle : NULL;
    if (row) {
        *row = (struct row){0};
        snprintf(row->command, sizeof(row->command), "%s", command);
    }
    return row;
}

void cpu_users_add(struct cpu_users *u, const char *command, uint64_t ns, uint64_t time_ns)
{
    pthread_mutex_lock(&u->lock);
    u->first_ns = u->first_ns ?: time_ns;
    advance_slots(u, time_ns);
    u->all[u->slot % SLOTS] += ns;
    struct row *row = find_row(u, command);
    if (row) {
        row->slots[u->slot % SLOTS] += ns;
        row->last_slot = u->slot;
    }
    pthread_mutex_unlock(&u->lock);
}

static int busier_first(const void *a, const void *b)
{
    const struct cpu_user *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : strcmp(x->command, y->command);
}

size_t cpu_users_list(struct cpu_users *u, uint64_t since_ns, uint64_t now_ns, struct cpu_user *ret, size_t max,
                      uint64_t *ret_all_ns, uint64_t *ret_span_ns)
{
    struct cpu_user all[CPU_USERS_MAX];
    size_t count = 0;
    pthread_mutex_lock(&u->lock);
    advance_slots(u, now_ns);
    uint64_t first_slot = since_ns / SLOT_NS;
    if (first_slot + SLOTS <= u->slot)
        first_slot = u->slot - SLOTS + 1;
    const uint64_t from_ns = first_slot * SLOT_NS > u->first_ns ? first_slot * SLOT_NS : u->first_ns;
    *ret_span_ns = u->first_ns && now_ns > from_ns ? now_ns - from_ns : 0;
    *ret_all_ns = sum_since(u, u->all, first_slot);
    for (size_t r = 0; r < u->count; r++) {
        const uint64_t ns = sum_since(u, u->rows[r].slots, first_slot);
        if (!ns)
            continue;
        memcpy(all[count].command, u->rows[r].command, CPU_COMMAND_BYTES);
        all[count++].ns = ns;
    }
    pthread_mutex_unlock(&u->lock);
    qsort(all, count, sizeof(all[0]), busier_first);
    count = count < max ? count : max;
    memcpy(ret, all, count * sizeof(all[0]));
    return count;
}
