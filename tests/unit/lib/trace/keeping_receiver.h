/* A transport that keeps the packets sent, and answers as scripted: no network. */
#pragma once

#include "transport.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSTS_MAX 4096

struct receiver {
    int opened, closed;
    atomic_int posts;
    char *text[POSTS_MAX];
    size_t size[POSTS_MAX];
    int answers[POSTS_MAX]; /* 0: 200; < 0: -errno; otherwise a status */
    char content_type[64], headers[64];
};

static struct receiver receiver;

static int keep_open(const struct otlp_transport_options *o, void **ret_connection, char *why, size_t why_size)
{
    if (strcmp(o->url, "http://bad") == 0) {
        snprintf(why, why_size, "bad");
        return -EINVAL;
    }
    snprintf(receiver.content_type, sizeof(receiver.content_type), "%s", o->content_type);
    snprintf(receiver.headers, sizeof(receiver.headers), "%s", o->headers);
    receiver.opened++;
    *ret_connection = &receiver;
    return 0;
}

static int keep_post(void *connection, const void *data, size_t size, struct otlp_answer *ret_answer)
{
    struct receiver *r = connection;
    int n = atomic_load(&r->posts);
    if (n == POSTS_MAX)
        return -ENOSPC;
    r->text[n] = strndup(data, size);
    r->size[n] = size;
    atomic_store(&r->posts, n + 1);
    if (r->answers[n] < 0) {
        snprintf(ret_answer->why, sizeof(ret_answer->why), "no answer");
        return r->answers[n];
    }
    answer_with(ret_answer, r->answers[n] ? r->answers[n] : 200);
    return 0;
}

static void keep_close(void *connection)
{
    ((struct receiver *)connection)->closed++;
}

static const struct otlp_transport keeping = {OTLP_TRANSPORT_VERSION, keep_open, keep_post, keep_close};
