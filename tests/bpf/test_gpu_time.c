/* The probes of libsonde-cuda: the stack and number of each launch are recorded, and each record of the program is
 * copied, whatever the program passes instead. */
#include "threads.h"
#include "uprobes.h"
#include "watch.h"

#include "sources/attach/sample_event.h"
#include "sources/attach/user_probe.h"

#include "probes/gpu_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAUNCHES   100
#define FIRST      7   /* the first launch's number */
#define CODE_BYTES 256 /* no function here is longer */

/* ---- the program ---- */

static __attribute__((noinline, noclone)) void fire_launch(uint64_t number)
{
    __asm__ volatile("nop" : : "r"(number) : "memory");
}

static __attribute__((noinline, noclone)) void fire_record(const void *record)
{
    __asm__ volatile("nop" : : "r"(record) : "memory");
}

static struct {
    struct gpu_sum sum;
    char name[GPU_NAME_MAX + 1];
} sound;
static struct gpu_window began, ended;

static void prepare_records(void)
{
    const struct gpu_window window = {.h = {.size_bytes = sizeof(window), .kind = RECORD_GPU_WINDOW, .time_ns = 1}};
    began = ended = window;
    ended.state = GPU_WINDOW_ENDED;
    ended.launches = LAUNCHES;
    sound.sum = (struct gpu_sum){.h = {.size_bytes = GPU_RECORD_MAX_BYTES, .kind = RECORD_GPU_SUM, .pid = 1},
                                 .launch = FIRST,
                                 .count = 3,
                                 .ns = 4,
                                 .name_bytes = GPU_NAME_MAX};
    memset(sound.name, 'k', GPU_NAME_MAX);
}

static void fire_sizes_that_are_none(void)
{
    static const uint32_t sizes[] = {0, sizeof(struct record_header), sizeof(struct gpu_sum) - 1,
                                     GPU_RECORD_MAX_BYTES + 1, UINT32_MAX};
    const struct gpu_sum kept = sound.sum;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        sound.sum.h.size_bytes = sizes[i];
        fire_record(&sound);
    }
    sound.sum = kept;
}

static void fire_kinds_of_others(void)
{
    static const uint16_t kinds[] = {0, RECORD_CPU_SAMPLE, RECORD_GPU_LAUNCH, RECORD_GPU_WINDOW, RECORD_PROCESS_EXIT};
    const struct gpu_sum kept = sound.sum;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        sound.sum.h.kind = kinds[i];
        fire_record(&sound);
    }
    sound.sum = kept;
}

static void run_program(int go)
{
    char byte;
    if (read(go, &byte, 1) != 1)
        _exit(1);
    fire_record(&began);
    for (uint64_t i = 0; i < LAUNCHES; i++)
        fire_launch(FIRST + i);
    fire_record(NULL);
    fire_record((const void *)(UINTPTR_MAX - 8));
    fire_sizes_that_are_none();
    fire_kinds_of_others();
    fire_record(&sound);
    fire_record(&ended);
    (void)!read(go, &byte, 1);
    _exit(0);
}

/* ---- the records ---- */

struct observed {
    pid_t pid;
    uint64_t launches, sums, windows, states; /* states: a bit for each */
};

static void take_launch(struct observed *o, const struct stack_record *s)
{
    const uint64_t leaf = s->data[s->kernel_frames] & ~FRAME_EXACT;
    assert_true(s->user_frames > 0);
    assert_in_range(leaf, (uint64_t)fire_launch, (uint64_t)fire_launch + CODE_BYTES);
    assert_int_equal(s->sample.value, FIRST + o->launches);
    o->launches++;
}

static void take_record(struct observed *o, const struct record_header *h)
{
    assert_int_equal(h->pid, o->pid);
    assert_int_equal(h->tid, o->pid);
    assert_true(h->time_ns > 1); /* the time is the kernel's */
    switch (h->kind) {
    case RECORD_GPU_LAUNCH:
        take_launch(o, (const struct stack_record *)h);
        break;
    case RECORD_GPU_SUM:
        assert_int_equal(h->size_bytes, GPU_RECORD_MAX_BYTES);
        assert_memory_equal(h + 1, &sound.sum.h + 1, GPU_RECORD_MAX_BYTES - sizeof(*h));
        o->sums++;
        break;
    case RECORD_GPU_WINDOW:
        o->windows++;
        o->states |= 1u << ((const struct gpu_window *)h)->state;
        break;
    default:
        fail_msg("a record of kind %u", h->kind);
    }
}

static void drain(struct watch *w, struct observed *o)
{
    do {
        batch_clear(w->batch);
        assert_int_equal(w->source->drain(w->self, w->batch), 0);
        for (size_t i = 0; i < batch_count(w->batch); i++)
            take_record(o, batch_get(w->batch, i));
    } while (batch_count(w->batch) > 0);
}

static pid_t start_program(int *ret_go)
{
    int go[2];
    assert_int_equal(pipe(go), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        run_program(go[0]);
    }
    close(go[0]);
    *ret_go = go[1];
    return pid;
}

/* The caller closes `fd`. */
static struct user_probe_site site_of(const void *function)
{
    return (struct user_probe_site){.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
                                    .file_offset = uprobes_file_offset(function)};
}

/* `of_process`: the probes are attached to the program alone. */
static void record_program(bool of_process)
{
    struct watch_options options = watch_defaults;
    struct user_probe_site launches = site_of((const void *)fire_launch), records = site_of((const void *)fire_record);
    struct sample_event event;
    int go;
    prepare_records();
    struct observed o = {.pid = start_program(&go)};
    launches.pid = records.pid = of_process ? (uint32_t)o.pid : 0;
    sample_event_gpu(&event);
    event.sites = &launches;
    event.record_sites = &records;
    event.site_count = event.record_site_count = 1;
    options.event = &event;
    options.ring_bytes = 16U << 20;
    options.filter.pids[0] = (uint32_t)o.pid;
    options.filter.pid_count = 1;
    struct watch w = watch_begin(&source_cpu, &options);
    threads_await_blocked(o.pid, SYS_read);
    fire_record(&began); /* this process is not recorded */
    assert_int_equal(write(go, "", 1), 1);
    threads_await_blocked(o.pid, SYS_read);
    assert_int_equal(w.source->stop(w.self), 0);
    drain(&w, &o);
    kill(o.pid, SIGKILL);
    waitpid(o.pid, NULL, 0);
    close(go);
    const uint64_t missed = watch_losses(&w).count[LOSS_MISSED];
    if (missed == 0) {
        assert_int_equal(o.launches, LAUNCHES);
        assert_int_equal(o.sums, 1);
        assert_int_equal(o.windows, 2);
        assert_int_equal(o.states, 1u << GPU_WINDOW_BEGAN | 1u << GPU_WINDOW_ENDED);
    }
    watch_end_despite(&w, 1ULL << LOSS_MISSED);
    close(launches.fd);
    close(records.fd);
}

static void test_launches_and_records_are_taken(void **state)
{
    (void)state;
    record_program(false);
}

static void test_one_process_is_taken(void **state)
{
    (void)state;
    record_program(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_and_records_are_taken),
        cmocka_unit_test(test_one_process_is_taken),
    };
    return cmocka_run_group_tests_name("gpu_time", tests, NULL, NULL);
}
