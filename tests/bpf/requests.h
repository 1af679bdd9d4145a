/* Shared by the request tests: servers of four kinds, a client, and the request source with one attach method, the
 * flight recorder, and the requests that were recorded so far, each with its critical path. */
#pragma once

#include "base/clock.h"
#include "diagnose/request.h"
#include "sources/request/request.h"
#include "sources/request/request_attach.h"
#include "sources/source.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <setjmp.h>

#include <cmocka.h>

#define PATIENCE_NS 60000000000ull
#define KEPT_MAX    512
#define CAUSE_MS    40

struct watch {
    struct shared_tables *tables;
    struct request_metrics *metrics; /* of the source */
    void *recorder;                  /* its source */
    void *self; /* the source; NULL: this kernel does not support the method, and why_not says why */
    struct batch *batch;
    struct request *requests[KEPT_MAX]; /* the latest record of each request */
    size_t count;
    uint64_t bad; /* records that are not HTTP */
    uint64_t began_ns;
    struct losses before;
    char why_not[512];
    char limitation[512]; /* of the method */
};
extern struct watch watch;

enum { THREADS, EPOLL, PREFORK, POOL };
extern pid_t servers[4];
extern unsigned short ports[4];

/* cmocka setup: once per group, and around each case. The initial state of a case is its attach method. */
#define ON_METHOD(method) ((void *)(long)(method))
int start_servers(void **state);
int stop_servers(void **state);
/* Stops a server and starts another process under the same PID, whose threads are named `command`. Returns false where
 * the kernel does not let a process choose its PID. */
bool replace_server(int server, const char *command);
int watch_begin(void **state);
int watch_end(void **state);

int connect_to(int server);
/* Reads until `text` was seen `count` times. */
void expect_text(int fd, const char *text, int count);
/* Waits until the server has filled its send buffer and is blocked. */
void await_full(int server, int fd);
/* Sends a request on its own connection and reads the whole reply. */
void send_request(int server, const char *method, const char *target);

void check(void);
size_t seen(pid_t pid, const char *route);
/* Waits for `count` requests of that route (pid 0: of any process) and returns the last. */
const struct request *await_requests(pid_t pid, const char *route, size_t count);
/* A component of this kind whose detail contains the text; NULL: not found. */
const struct request_part *find_part(const struct request *r, enum request_part_kind kind, const char *detail);
uint64_t total(const struct request *r, enum request_part_kind kind);
uint64_t lost(enum loss_reason reason);
/* Number of requests of a service in the counters, whatever the status. */
uint64_t counted(const char *service);
void await_counted(const char *service, uint64_t count);

/* Skips the case where the kernel lacks the method. */
void need_method(void);
/* Skips the case where requests begin when they are read. */
void need_arrivals(void);
void assert_nothing_lost(void);
