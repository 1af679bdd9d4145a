/* A model server in one file: classifies iris flowers by the nearest of three centroids. It shows how a
 * server in C or C++ uses libsonde: request traces, their settings and their protocol, and USDT probes.
 *
 *     c-server [--trace-config [<mode>,]<setting>=<value>]... [PORT]
 *
 * POST /classify: one flower per line, four numbers each; the response has one species per line.
 * libmicrohttpd starts a thread per connection; two of them compute at a time, the others wait. (*) marks the
 * use of libsonde. */
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

enum { FEATURES = 4, SPECIES = 3, TURNS = 2, BODY_MAX_BYTES = 1 << 20 };

/* Means of the 50 flowers of each species published by Fisher in 1936: length and width of sepals and of
 * petals, in centimetres. */
static const char *const species[SPECIES] = {"setosa", "versicolor", "virginica"};
static const double centroids[SPECIES][FEATURES] = {
    {5.006, 3.428, 1.462, 0.246}, {5.936, 2.770, 4.260, 1.326}, {6.588, 2.974, 5.552, 2.026}};

static struct sonde_trace_manager *manager; /* (*) */
static struct sonde_trace_model *model;
static struct sonde_probe *enqueued, *predict_begin, *predict_end;
static sem_t turns;
static atomic_uint waiting; /* for a turn */

struct request {
    struct sonde_trace *trace; /* (*) NULL: not traced; all calls with it do nothing */
    uint64_t received_ns;
    const char *refused; /* the reason; NULL: accepted */
    size_t size;
    char body[BODY_MAX_BYTES + 1]; /* NUL-terminated */
};

/* --- the model -------------------------------------------------------------------------------------- */

static double distance(const double *a, const double *b)
{
    double sum = 0;
    for (int i = 0; i < FEATURES; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

/* Waits for a turn, then runs the model on this thread. */
static void predict(struct sonde_trace *t, size_t count, double (*flowers)[FEATURES], int32_t *found)
{
    const int64_t shape[] = {(int64_t)count, FEATURES};
    const struct sonde_trace_tensor in = {"flowers", "FP64", shape, 2, flowers, count * sizeof(*flowers)};
    const struct sonde_trace_tensor out = {"species", "INT32", shape, 1, found, count * sizeof(*found)};
    sonde_trace_enter(t); /* (*) from here on, this thread works for this request */
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_START);
    sonde_trace_timestamp(t, SONDE_TRACE_QUEUE_START);
    unsigned before = atomic_fetch_add(&waiting, 1);
    sonde_probe_fire(enqueued, before, sonde_trace_id(t)); /* the id is computed only while attached */
    while (sem_wait(&turns) < 0)
        ; /* interrupted by a signal */
    atomic_fetch_sub(&waiting, 1);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_START);
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_BACKEND_INPUT, &in);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_INPUT_END);
    sonde_probe_fire(predict_begin, count);
    for (size_t i = 0; i < count; i++)
        for (int32_t k = 1; k < SPECIES; k++)
            if (distance(flowers[i], centroids[k]) < distance(flowers[i], centroids[found[i]]))
                found[i] = k;
    sonde_probe_fire(predict_end, count);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_OUTPUT_START);
    sonde_trace_tensor(t, SONDE_TRACE_TENSOR_BACKEND_OUTPUT, &out);
    sonde_trace_timestamp(t, SONDE_TRACE_COMPUTE_END);
    sem_post(&turns);
    sonde_trace_timestamp(t, SONDE_TRACE_REQUEST_END);
    sonde_trace_leave(t);
}

/* --- requests ---------------------------------------------------------------------------------------- */

/* Parses the body. Returns the number of flowers; 0: the body is malformed. */
static size_t read_flowers(const struct request *r, double (*flowers)[FEATURES])
{
    const char *at = r->body;
    size_t count = 0;
    for (char *end;; at = end, count++) {
        double number = strtod(at, &end);
        if (end == at || !isfinite(number))
            break;
        flowers[count / FEATURES][count % FEATURES] = number;
    }
    at += strspn(at, " \r\n");
    return count % FEATURES == 0 && at == r->body + r->size ? count / FEATURES : 0;
}

static char *classify(struct MHD_Connection *connection, struct request *r)
{
    const char *id = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Request-Id");
    const struct sonde_trace_request asked = {
        .size = sizeof(asked), /* (*) */
        .request_id = id,
        .request_id_size = id ? strlen(id) : 0,
        .traceparent = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "traceparent"),
        .tracestate = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "tracestate")};
    r->trace = sonde_trace_start(model, &asked);
    sonde_trace_timestamp_at(r->trace, SONDE_TRACE_HTTP_RECV_START, r->received_ns);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_RECV_END);

    const size_t count_max = r->size / (2 * FEATURES) + 1; /* a number and its separator take two bytes or more */
    double(*flowers)[FEATURES] = calloc(count_max, sizeof(*flowers));
    int32_t *found = calloc(count_max, sizeof(*found));
    char *text = NULL;
    size_t text_size, count = flowers && found ? read_flowers(r, flowers) : 0;
    FILE *out = open_memstream(&text, &text_size);
    if (count > 0)
        predict(r->trace, count, flowers, found);
    else
        r->refused = "expected four numbers a flower";
    for (size_t i = 0; out && i < count; i++)
        fprintf(out, "%s\n", species[found[i]]);
    if (out && r->refused)
        fprintf(out, "%s\n", r->refused);
    if (out)
        fclose(out);
    free(flowers);
    free(found);
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_SEND_START);
    return text;
}

static enum MHD_Result answer(struct MHD_Connection *connection, const char *path, const char *method,
                              struct request *r)
{
    unsigned status = 404;
    char *text = NULL;
    if (strcmp(path, "/classify") == 0 && strcmp(method, "POST") == 0) {
        text = classify(connection, r);
        status = r->refused ? 400 : 200;
    } else if (sonde_trace_http(manager, method, path, r->body, r->size, &status, &text) < 0) { /* (*) */
        text = strdup("POST flowers to /classify\n");
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(text ? strlen(text) : 0, text, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

/* Called after the header, for each chunk of the body, and at its end. MHD_NO closes the connection. */
static enum MHD_Result on_request(void *argument, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *size,
                                  void **request)
{
    struct request *r = *request;
    (void)argument, (void)version;
    if (!r) {
        if ((*request = r = calloc(1, sizeof(*r))))
            r->received_ns = sonde_trace_now_ns();
        return r ? MHD_YES : MHD_NO;
    }
    if (*size == 0)
        return answer(connection, path, method, r);
    if (*size > BODY_MAX_BYTES - r->size)
        return MHD_NO;
    memcpy(r->body + r->size, data, *size);
    r->size += *size;
    *size = 0;
    return MHD_YES;
}

/* The response is sent, or the client has disconnected. */
static void on_end(void *argument, struct MHD_Connection *connection, void **request,
                   enum MHD_RequestTerminationCode how)
{
    struct request *r = *request;
    (void)argument, (void)connection;
    if (!r)
        return;
    enum sonde_trace_status status = r->refused ? SONDE_TRACE_ERROR : SONDE_TRACE_OK; /* (*) */
    sonde_trace_timestamp(r->trace, SONDE_TRACE_HTTP_SEND_END);
    sonde_trace_end(r->trace, how == MHD_REQUEST_TERMINATED_COMPLETED_OK ? status : SONDE_TRACE_CANCELLED, r->refused);
    free(r);
}

/* --- the program ------------------------------------------------------------------------------------- */

/* (*) Called once when traces begin to be lost (a full disk, for example), not for each trace. */
static void on_trace_error(void *argument, int error, const char *message)
{
    (void)argument;
    fprintf(stderr, "c-server: %s (errno %d)\n", message, error);
}

int main(int argc, char **argv)
{
    const struct sonde_trace_options options = {.size = sizeof(options), .on_error = on_trace_error};
    struct sonde_trace_config *config = NULL;
    struct sonde_provider *provider;
    char why[SONDE_TRACE_WHY_SIZE] = "out of memory";

    /* (*) Removes the trace options from the command line. */
    int tracing = sonde_trace_config_new(&config) == 0 &&
                  sonde_trace_config_take(config, &argc, argv, why, sizeof(why)) == 0 &&
                  sonde_trace_manager_new(config, &options, &manager, why, sizeof(why)) == 0 &&
                  sonde_trace_model_new(manager, "iris", 1, &model) == 0;
    sonde_trace_config_free(config);
    if (!tracing || sonde_provider_new("c_server", &provider) < 0 ||
        sonde_probe_add(provider, "enqueued", "u32 waiting, u64 trace", &enqueued) < 0 ||
        sonde_probe_add(provider, "predict_begin", "u32 flowers", &predict_begin) < 0 ||
        sonde_probe_add(provider, "predict_end", "u32 flowers", &predict_end) < 0) {
        fprintf(stderr, "c-server: %s\n", why);
        return 1;
    }
    sonde_provider_load(provider); /* on failure: one warning, and the probes stay silent */

    sigset_t ends;
    int signal;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ends, NULL); /* inherited by all threads: sigwait receives them */
    sem_init(&turns, 0, TURNS);
    struct MHD_Daemon *http =
        MHD_start_daemon(MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD,
                         (uint16_t)(argc > 1 ? atoi(argv[1]) : 8000), NULL, NULL, on_request, NULL,
                         MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_TIMEOUT, 60U, MHD_OPTION_END);
    if (!http) {
        perror("c-server");
        return 1;
    }
    printf("listening on %u\n", MHD_get_daemon_info(http, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    sigwait(&ends, &signal);
    MHD_stop_daemon(http);             /* closes the connections and ends their threads */
    sonde_trace_model_free(model);     /* (*) */
    sonde_trace_manager_free(manager); /* writes queued traces */
    sonde_provider_free(provider);
    return 0;
}
