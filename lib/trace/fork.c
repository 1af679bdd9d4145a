/* The list of managers for pthread_atfork, and what exists once per process while there is a manager. The mutable
 * globals of the library are here, in trace.c (the next id), probes.c, process_generation.c, thread_context.c and
 * process_context.c. */
#include "fork.h"

#include "../switch.h"
#include "manager.h"
#include "probes.h"
#include "process_context.h"
#include "process_generation.h"
#include "thread_context.h"

#include <errno.h>

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sonde_trace_manager *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered;

static void before(void)
{
    pthread_mutex_lock(&list_lock);
    for (struct sonde_trace_manager *m = list; m; m = m->next)
        trace_manager_before_fork(m);
}

static void after(bool child)
{
    if (child) {
        atomic_fetch_add_explicit(&trace_generation, 1, memory_order_relaxed);
        trace_thread_context_clear();
    }
    for (struct sonde_trace_manager *m = list; m; m = m->next)
        trace_manager_after_fork(m, child);
    pthread_mutex_unlock(&list_lock);
}

static void in_parent(void)
{
    after(false);
}

static void in_child(void)
{
    after(true);
}

static void register_handlers(void)
{
    registered = pthread_atfork(before, in_parent, in_child);
}

int trace_fork_add(struct sonde_trace_manager *manager)
{
    pthread_once(&once, register_handlers);
    if (registered != 0)
        return -registered;
    pthread_mutex_lock(&list_lock);
    if (!list) {
        trace_probes_load();
        if (!sonde_switched_off())
            trace_process_context_publish(manager->config);
    }
    manager->next = list;
    list = manager;
    pthread_mutex_unlock(&list_lock);
    return 0;
}

void trace_fork_remove(struct sonde_trace_manager *manager)
{
    pthread_mutex_lock(&list_lock);
    struct sonde_trace_manager **m = &list;
    while (*m && *m != manager)
        m = &(*m)->next;
    if (*m)
        *m = manager->next;
    if (!list) {
        trace_process_context_withdraw();
        trace_probes_unload();
    }
    pthread_mutex_unlock(&list_lock);
}
