/* A model server in one file: which iris is it, by the nearest of three centroids? It shows all that a server
 * in C or C++ does with libsonde: request traces, their settings and their protocol, and native probes.
 *
 *     c-server [--trace-config [<mode>,]<setting>=<value>]... [PORT]
 *
 * POST /classify: a flower a line, four numbers each; the answer has a species a line. libmicrohttpd gives
 * each connection a thread; two of them compute at a time, the others wait. (*) is what libsonde is for. */
#include <sonde/probe.h> /* (*) */
#include <sonde/trace.h> /* (*) */

#include <math.h>
#include <microhttpd.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 4, SPECIES = 3, TURNS = 2, CONNECTIONS_MAX = 256, BODY_MAX_BYTES = 1 << 20 };

/* The means of the 50 flowers of each species that Fisher published in 1936: length and width of sepals and
 * of petals, in centimetres. */
static const char *const species[SPECIES] = {"setosa", "versicolor", "virginica"};
static const double centroids[SPECIES][FEATURES] = {
    {5.006, 3.428, 1.462, 0.246}, {5.936, 2.770, 4.260, 1.326}, {6.588, 2.974, 5.552, 2.026}};

struct request {
    struct sonde_trace *trace; /* (*) NULL: not traced, and whatever is done with it does nothing */
    uint64_t received_ns;
    char *body;
    size_t size;
    double *flowers;
    int32_t *nearest; /* species */
    int64_t count;
    const char *refused; /* why; NULL: it was not */
};

struct server {
    struct sonde_trace_manager *manager; /* (*) */
    struct sonde_trace_model *model;
    struct sonde_probe *enqueued, *predict_begin, *predict_end;
    sem_t turns;
    atomic_uint waiting; /* for one */
};

/* --- the model -------------------------------------------------------------------------------------- */

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < FEATURES; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

static void predict(struct server *s, struct request *r)
{
    const int64_t shape[] = {r->count, FEATURES};
    const size_t count = (size_t)r->count;
    const size_t in_bytes = count * FEATURES * sizeof(double);
    const struct sonde_trace_tensor in = {"flowers", "FP64", shape, 2, r->flowers, in_bytes};
    const struct sonde_trace_tensor out = {"species", "INT32", shape, 1, r->nearest, count * sizeof(int32_t)};
    sonde_trace_timestamp(r->trace, SONDE_TRACE_COMPUTE_START); /* (*) and so on */
    sonde_trace_tensor(r->trace, SONDE_TRACE_TENSOR_BACKEND_INPUT, &in);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_COMPUTE_INPUT_END);
    sonde_probe_fire(s->predict_begin, r->count);
    for (size_t i = 0; i < count; i++) {
        const double *flower = r->flowers + i * FEATURES;
        for (int32_t k = 1; k < SPECIES; k++)
            if (distance(flower, centroids[k]) < distance(flower, centroids[r->nearest[i]]))
                r->nearest[i] = k;
    }
    sonde_probe_fire(s->predict_end, r->count);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_COMPUTE_OUTPUT_START);
    sonde_trace_tensor(r->trace, SONDE_TRACE_TENSOR_BACKEND_OUTPUT, &out);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_COMPUTE_END);
}

/* Its turn, then the model on this very thread. */
static void run(struct server *s, struct request *r)
{
    sonde_trace_timestamp(r->trace, SONDE_TRACE_REQUEST_START); /* (*) */
    sonde_trace_timestamp(r->trace, SONDE_TRACE_QUEUE_START);
    unsigned waiting = atomic_fetch_add(&s->waiting, 1);
    sonde_probe_fire(s->enqueued, waiting, sonde_trace_id(r->trace)); /* looked up while somebody listens */
    while (sem_wait(&s->turns) < 0)
        ; /* a signal came */
    atomic_fetch_sub(&s->waiting, 1);
    predict(s, r);
    sem_post(&s->turns);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_REQUEST_END);
}

/* --- requests ---------------------------------------------------------------------------------------- */

/* NULL, or why they are none. */
static const char *read_flowers(struct request *r)
{
    size_t count = 0;
    char *at = r->body, *end = at;
    const size_t count_max = r->size / 2 + 1; /* two bytes a number, with what stands before it */
    r->flowers = calloc(count_max, sizeof(*r->flowers));
    r->nearest = calloc(count_max, sizeof(*r->nearest));
    if (!at || !r->flowers || !r->nearest)
        return at ? "out of memory" : "no flowers";
    for (double number = strtod(at, &end); end != at; number = strtod(at, &end)) {
        if (!isfinite(number))
            return "not a measure";
        r->flowers[count++] = number;
        at = end;
    }
    r->count = (int64_t)(count / FEATURES);
    at += strspn(at, " \r\n");
    return count == 0 || count % FEATURES || at != r->body + r->size ? "expected four numbers a flower"
                                                                     : NULL;
}

static char *answer_of(const struct request *r)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    for (int64_t i = 0; out && i < r->count && !r->refused; i++)
        fprintf(out, "%s\n", species[r->nearest[i]]);
    if (out && r->refused)
        fprintf(out, "%s\n", r->refused);
    if (out)
        fclose(out);
    return text;
}

static char *classify(struct server *s, struct MHD_Connection *connection, struct request *r)
{
    const char *id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Request-Id");
    const struct sonde_trace_request asked = {
        .size = sizeof(asked), /* (*) */
        .request_id = id,
        .request_id_size = id ? strlen(id) : 0,
        .traceparent = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "traceparent"),
        .tracestate = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "tracestate")};
    r->trace = sonde_trace_start(s->model, &asked);
    sonde_trace_timestamp_at(r->trace, SONDE_TRACE_HTTP_RECV_START, r->received_ns);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_RECV_END);
    r->refused = read_flowers(r);
    if (!r->refused)
        run(s, r);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_SEND_START);
    return answer_of(r);
}

static enum MHD_Result answer(struct server *s, struct MHD_Connection *connection, const char *path,
                              const char *method, struct request *r)
{
    unsigned status = 404;
    char *text = NULL;
    if (strcmp(path, "/classify") == 0 && strcmp(method, "POST") == 0) {
        text = classify(s, connection, r);
        status = r->refused ? 400 : 200;
    } else if (sonde_trace_http(s->manager, method, path, r->body, r->size, &status, &text) < 0) { /* (*) */
        text = strdup("POST flowers to /classify\n");
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text ? strlen(text) : 0, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Called when the head has come, for each part of the body, and when all has come. */
static enum MHD_Result on_request(void *server, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **request)
{
    struct request *r = *request;
    (void)version;
    if (!r) {
        r = *request = calloc(1, sizeof(*r));
        if (r)
            r->received_ns = sonde_trace_now_ns();
        return r ? MHD_YES : MHD_NO; /* no: the connection is closed */
    }
    if (*size == 0)
        return answer(server, connection, path, method, r);
    char *body = r->size + *size <= BODY_MAX_BYTES ? realloc(r->body, r->size + *size + 1) : NULL;
    if (!body)
        return MHD_NO;
    memcpy(body + r->size, data, *size);
    r->body = body;
    r->size += *size;
    r->body[r->size] = '\0';
    *size = 0;
    return MHD_YES;
}

/* The answer has been written, or the client has gone. */
static void on_end(void *server, struct MHD_Connection *connection, void **request,
                   enum MHD_RequestTerminationCode how)
{
    struct request *r = *request;
    (void)server, (void)connection;
    if (!r)
        return;
    enum sonde_trace_status status = r->refused ? SONDE_TRACE_ERROR : SONDE_TRACE_OK; /* (*) */
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_SEND_END);
    sonde_trace_end(r->trace, how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? status : SONDE_TRACE_CANCELLED,
                    r->refused);
    free(r->body);
    free(r->flowers);
    free(r->nearest);
    free(r);
}

/* --- the program ------------------------------------------------------------------------------------- */

/* (*) Said once when traces begin to be lost (the disk is full, say), not for each. */
static void on_trace_error(void *argument, int error, const char *message)
{
    (void)argument;
    fprintf(stderr, "c-server: %s (errno %d)\n", message, error);
}

/* (*) Takes the options of tracing out of the command line. */
static int start_tracing(struct server *s, int *argc, char **argv)
{
    const struct sonde_trace_options options = {.size = sizeof(options), .on_error = on_trace_error};
    struct sonde_trace_config *config = NULL;
    char why[SONDE_TRACE_WHY_SIZE] = "out of memory";
    int r = sonde_trace_config_new(&config);
    if (r == 0)
        r = sonde_trace_config_take(config, argc, argv, why, sizeof(why));
    if (r == 0)
        r = sonde_trace_manager_new(config, &options, &s->manager, why, sizeof(why));
    if (r == 0)
        r = sonde_trace_model_new(s->manager, "iris", 1, &s->model);
    sonde_trace_config_free(config);
    if (r < 0)
        fprintf(stderr, "c-server: %s\n", why);
    return r;
}

/* (*) Where nothing can be loaded the probes stay silent, after one warning, and the program goes on. */
static struct sonde_provider *make_probes(struct server *s)
{
    struct sonde_provider *provider;
    if (sonde_provider_new("c_server", &provider) < 0 ||
        sonde_probe_add(provider, "enqueued", "u32 waiting, u64 trace", &s->enqueued) < 0 ||
        sonde_probe_add(provider, "predict_begin", "u32 flowers", &s->predict_begin) < 0 ||
        sonde_probe_add(provider, "predict_end", "u32 flowers", &s->predict_end) < 0)
        return NULL;
    sonde_provider_load(provider);
    return provider;
}

int main(int argc, char **argv)
{
    struct server s = {0};
    struct sonde_provider *provider;
    sigset_t ends;
    int signal;
    sem_init(&s.turns, 0, TURNS);
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* in all threads: sigwait takes them */
    if (start_tracing(&s, &argc, argv) < 0 || !(provider = make_probes(&s)))
        return 1;
    struct MHD_Daemon *http =
        MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD,
                         (uint16_t)(argc > 1 ? atoi(argv[1]) : 8000), NULL, NULL, on_request, &s,
                         MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, 60U, MHD_OPTION_END);
    if (!http) {
        perror("c-server");
        return 1;
    }
    printf("listening on %u\n", MHD_get_daemon_info(http, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    sigwait(&ends, &signal);
    MHD_stop_daemon(http);               /* ends the connections and their threads */
    sonde_trace_model_free(s.model);     /* (*) */
    sonde_trace_manager_free(s.manager); /* writes what is queued */
    sonde_provider_free(provider);
    return 0;
}
