/* What the tests of requests share: servers of four kinds, a client, and the request source on one method with
 * the requests that it has brought so far. */
#pragma once

#include "base/clock.h"
#include "diagnose/request.h"
#include "sources/request/request_attach.h"
#include "sources/source.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#include "probes/cpu.h"

#define PATIENCE_NS 60000000000ull
#define KEPT_MAX    512
#define CAUSE_MS    40

struct watch {
    void *self; /* the source; NULL: this kernel does not take the method, and why_not says why */
    struct batch *batch;
    struct request *requests[KEPT_MAX]; /* the latest record of each request */
    size_t count;
    uint64_t bad;                      /* records that are no HTTP */
    struct request_record_stacks last; /* as it came */
    struct cpu_sample apart[8];        /* the heads of stacks that came apart */
    size_t apart_count;
    uint64_t began_ns;
    struct losses before;
    char why_not[512];
    char why_no_stacks[512];
};
extern struct watch watch;

enum { THREADS, EPOLL, PREFORK, POOL };
extern pid_t servers[4];
extern unsigned short ports[4];

/* For cmocka: once, and around each case; a case's initial state is its method, and how stacks are walked. */
#define ON_METHOD(method)                ON_METHOD_WALKING(method, REQUEST_WALKS_BEST)
#define ON_METHOD_WALKING(method, walks) ((void *)(long)(((walks) + 1) * 256 + (method) + 1))
int start_servers(void **state);
int stop_servers(void **state);
/* Ends a server and starts it anew: another process of the same PID, and whose threads are called `command`. False:
 * this kernel gives nobody the number that he asks for. */
bool replace_server(int way, const char *command);
int watch_begin(void **state);
int watch_end(void **state);

int dial(int way);
/* Until `text` was read `count` times. */
void expect(int fd, const char *text, int count);
/* Until the server has sent as much as there is room for, and is blocked. */
void await_full(int way, int fd);
/* A request on a connection of its own, to the end of its reply. */
void ask(int way, const char *method, const char *target);

void look(void);
size_t seen(pid_t pid, const char *route);
/* Waits for `count` requests of that route (pid 0: anybody's) and gives the last. */
const struct request *await(pid_t pid, const char *route, size_t count);
/* A part of this kind whose detail has this in it; NULL: there is none. */
const struct request_part *find_part(const struct request *r, enum request_part_kind kind, const char *detail);
uint64_t total(const struct request *r, enum request_part_kind kind);
uint64_t lost(enum loss_reason reason);
/* What the counters have of a service, whatever the status. */
uint64_t counted(const char *service);
void await_counted(const char *service, uint64_t count);

/* Skips the case where there is no such method, or no such way to walk stacks. */
void need_method(void);
void need_stacks(void);
void assert_nothing_lost(void);
