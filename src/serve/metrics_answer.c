/* The answer to /metrics; see metrics_answer.h. */
#include "serve/metrics_answer.h"

#include "base/clock.h"
#include "export/openmetrics.h"
#include "serve/http.h"

#include <errno.h>
#include <pthread.h>

#define KEPT_NS 1000000000ull

struct metrics_answer {
    const struct page_data *data;
    struct readers *readers;
    pthread_mutex_t lock;
    struct MHD_Response *response; /* NULL: none yet */
    uint64_t made_ns;
    bool openmetrics;
};

int metrics_answer_new(const struct page_data *data, struct readers *readers, struct metrics_answer **ret)
{
    struct metrics_answer *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    *m = (struct metrics_answer){.data = data, .readers = readers};
    pthread_mutex_init(&m->lock, NULL);
    *ret = m;
    return 0;
}

static void forget(struct metrics_answer *m)
{
    if (m->response)
        MHD_destroy_response(m->response); /* connections that are still sending it keep it */
    m->response = NULL;
}

void metrics_answer_free(struct metrics_answer *m)
{
    if (!m)
        return;
    forget(m);
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static int write_metrics(const struct metrics_answer *m, bool openmetrics, struct buf *body)
{
    _cleanup_(metric_set_freep) struct metric_set *set = NULL;
    int r = metric_set_new(&set);
    if (r == 0)
        r = m->data->metrics(m->data->context, set);
    return r < 0 ? r : openmetrics_write(set, openmetrics, body);
}

static int make(struct metrics_answer *m, const struct reader *reader, bool openmetrics)
{
    _cleanup_buf_ struct buf body = {.max_bytes = HTTP_BODY_MAX_BYTES};
    const struct http_reply reply = {
        .status = MHD_HTTP_OK, .content_type = openmetrics_content_type(openmetrics), .readers = m->readers};
    forget(m);
    if (!readers_may_answer(m->readers, reader))
        return -EBUSY;
    int r = write_metrics(m, openmetrics, &body);
    if (r < 0)
        return r;
    m->response = http_response_new(&reply, &body);
    m->made_ns = clock_monotonic_ns();
    m->openmetrics = openmetrics;
    return m->response ? 0 : -ENOMEM;
}

int metrics_answer_send(struct metrics_answer *m, struct MHD_Connection *connection, bool openmetrics,
                        enum MHD_Result *ret)
{
    pthread_mutex_lock(&m->lock);
    const bool is_kept = m->response && m->openmetrics == openmetrics && clock_monotonic_ns() - m->made_ns < KEPT_NS;
    const int r = is_kept ? 0 : make(m, http_reader(connection), openmetrics);
    if (r == 0)
        *ret = MHD_queue_response(connection, MHD_HTTP_OK, m->response);
    pthread_mutex_unlock(&m->lock);
    return r;
}
