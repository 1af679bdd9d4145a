/* The leaf frame that explains why a thread waited, for each reason, and the description of its waker. */
#include "diagnose/off_cpu.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

static const struct frame user = {.kind = FRAME_NATIVE, .function = "main", .mapping = "", .file = "", .build_id = ""};
static const struct frame rwsem = {
    .kind = FRAME_KERNEL, .function = "rwsem_down_read_slowpath", .mapping = "", .file = "", .build_id = ""};

static void expect(int syscall, unsigned object, unsigned state, const struct frame *kernel, const char *text)
{
    const struct off_cpu_wait wait = {.syscall = syscall, .object = (uint8_t)object, .state = (uint8_t)state};
    const struct frame frames[] = {kernel ? *kernel : user, user};
    const struct sample s = {.frames = frames, .frame_count = 2};
    char out[OFF_CPU_TEXT_BYTES];
    assert_string_equal(off_cpu_text(&wait, &s, out), text);
}

static void test_reasons_by_system_call(void **state)
{
    (void)state;
    expect(SYS_clock_nanosleep, OFF_CPU_OBJECT_NONE, 0, NULL, "[sleep: clock_nanosleep]");
    expect(SYS_futex, OFF_CPU_OBJECT_NONE, 0, NULL, "[lock: futex]");
    expect(SYS_flock, OFF_CPU_OBJECT_FILE, 0, NULL, "[lock: flock]");
    expect(SYS_pread64, OFF_CPU_OBJECT_FILE, OFF_CPU_WAIT_IO | OFF_CPU_WAIT_UNINTERRUPTIBLE, NULL, "[disk: pread64]");
    expect(SYS_read, OFF_CPU_OBJECT_SOCKET, 0, NULL, "[network: read]");
    expect(SYS_recvmsg, OFF_CPU_OBJECT_UNIX, 0, NULL, "[ipc: recvmsg]");
    expect(SYS_read, OFF_CPU_OBJECT_PIPE, 0, NULL, "[ipc: read]");
    expect(SYS_read, OFF_CPU_OBJECT_OTHER, 0, NULL, "[other: read]");
    expect(SYS_ppoll, OFF_CPU_OBJECT_NONE, 0, NULL, "[events: ppoll]");
    expect(SYS_ppoll, OFF_CPU_OBJECT_SOCKET, 0, NULL, "[network: ppoll]");
    expect(SYS_wait4, OFF_CPU_OBJECT_NONE, 0, NULL, "[child: wait4]");
    expect(SYS_rt_sigtimedwait, OFF_CPU_OBJECT_NONE, 0, NULL, "[signal: rt_sigtimedwait]");
    expect(SYS_read, OFF_CPU_OBJECT_PIPE, OFF_CPU_WAIT_STOPPED, NULL, "[stopped: read]");
    expect(-1, OFF_CPU_OBJECT_NONE, OFF_CPU_WAIT_IO, NULL, "[disk: page fault]");
    expect(-1, OFF_CPU_OBJECT_NONE, OFF_CPU_WAIT_UNINTERRUPTIBLE, &rwsem, "[lock: page fault]");
}

/* A kind of descriptor that the BPF side does not report. */
static void test_reasons_by_kernel_function(void **state)
{
    static const struct {
        int syscall;
        const char *function, *text;
    } cases[] = {
        {SYS_openat, "fifo_open", "[ipc: openat]"},
        {SYS_openat, "__break_lease", "[lock: openat]"},
        {SYS_openat, "jbd2_log_wait_commit", "[disk: openat]"},
        {SYS_read, "timerfd_read", "[sleep: read]"},
        {SYS_read, "timerfd_read_iter", "[sleep: read]"},
        {SYS_read, "eventfd_read", "[events: read]"},
        {SYS_write, "eventfd_write", "[events: write]"},
        {SYS_read, "inotify_read", "[events: read]"},
        {SYS_read, "signalfd_read_iter", "[signal: read]"},
        {SYS_read, "n_tty_read", "[other: read]"},
    };
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        const struct frame function = {
            .kind = FRAME_KERNEL, .function = cases[i].function, .mapping = "", .file = "", .build_id = ""};
        expect(cases[i].syscall, OFF_CPU_OBJECT_OTHER, 0, &function, cases[i].text);
    }
}

static void test_kernel_thread_reason(void **state)
{
    (void)state;
    const struct off_cpu_wait wait = {.syscall = -1};
    const struct sample s = {.frames = &rwsem, .frame_count = 1};
    char out[OFF_CPU_TEXT_BYTES];
    assert_string_equal(off_cpu_text(&wait, &s, out), "[lock: kernel thread]");
}

/* ---- wakers ---- */

#define FRAMES_MAX 16

/* `stack` has names, leaf first; kernel frames precede "|". Asserts how many frames are kept, and whether the waker is
 * an interrupt. */
static void expect_waker(unsigned waker, const char *stack, size_t count, bool is_interrupt)
{
    struct frame frames[FRAMES_MAX];
    char text[512], *next = text;
    enum frame_kind kind = FRAME_KERNEL;
    struct sample s = {.frames = frames};
    bool told_as_interrupt;
    snprintf(text, sizeof(text), "%s", stack);
    for (char *name = strsep(&next, " "); name; name = strsep(&next, " ")) {
        if (strcmp(name, "|") == 0)
            kind = FRAME_NATIVE;
        else if (name[0])
            frames[s.frame_count++] =
                (struct frame){.kind = kind, .function = name, .mapping = "", .file = "", .build_id = ""};
    }
    assert_int_equal(off_cpu_waker_frames(waker, &s, &told_as_interrupt), count);
    assert_int_equal(told_as_interrupt, is_interrupt);
}

#define FUTEX  "try_to_wake_up wake_up_q futex_wake do_syscall_64 entry_SYSCALL_64_after_hwframe | sem_post let_go"
#define TIMER  "try_to_wake_up hrtimer_wakeup sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt"
#define PACKET "try_to_wake_up sock_def_readable process_backlog handle_softirqs do_softirq.part.0 __local_bh_enable_ip"
#define CARD   "try_to_wake_up sock_def_readable virtnet_poll __do_softirq do_softirq __local_bh_enable_ip"
#define RETURN                                                                                                         \
    "try_to_wake_up sock_def_readable process_backlog __do_softirq do_softirq_own_stack irq_exit_rcu common_interrupt asm_common_interrupt"

/* A wakeup from an interrupt is not attributed to the interrupted thread. */
static void test_waker_frames(void **state)
{
    (void)state;
    const unsigned thread = OFF_CPU_WAKER_THREAD, interrupt = OFF_CPU_WAKER_INTERRUPT, softirq = OFF_CPU_WAKER_SOFTIRQ,
                   untold = OFF_CPU_WAKER_UNKNOWN;
    expect_waker(thread, FUTEX, 7, false);
    expect_waker(untold, FUTEX, 7, false);
    expect_waker(thread, "try_to_wake_up handle_userfault asm_exc_page_fault | touch", 4, false);
    expect_waker(interrupt, TIMER " vfs_read do_syscall_64", 4, true);
    expect_waker(untold, TIMER " vfs_read | read main", 4, true);
    expect_waker(interrupt, "try_to_wake_up flush_smp_call_function_queue do_idle", 3, true); /* of an idle CPU */
    expect_waker(softirq, PACKET " udp_sendmsg | sendto main", 9, false);
    expect_waker(untold, PACKET " udp_sendmsg | sendto main", 9, false);
    expect_waker(softirq, CARD " udp_sendmsg | sendto main", 6, true);
    expect_waker(untold, CARD " udp_sendmsg | sendto main", 6, true);
    expect_waker(softirq, RETURN " vfs_read | read", 8, true);
    expect_waker(untold, RETURN " vfs_read | read", 8, true);
    expect_waker(softirq, TIMER " " PACKET " | main", 4, true); /* which interrupted the sending of the process's own
                                                                 * packet */
    expect_waker(softirq, "try_to_wake_up handle_softirqs run_ksoftirqd kthread", 4, true);
    expect_waker(softirq, "", 0, true);
}

static void test_waker_description(void **state)
{
    (void)state;
    const struct resource server = {.pid = 7, .command = "server"};
    const struct sample main_thread = {.resource = &server, .thread_name = "server"},
                        worker = {.resource = &server, .thread_name = "worker"};
    char out[OFF_CPU_TEXT_BYTES];
    assert_string_equal(off_cpu_waker_text(NULL, 7, out), "[woken by an interrupt]");
    assert_string_equal(off_cpu_waker_text(&main_thread, 8, out), "[woken by server]");
    assert_string_equal(off_cpu_waker_text(&worker, 7, out), "[woken by worker]");
    assert_string_equal(off_cpu_waker_text(&worker, 8, out), "[woken by worker of server]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons_by_system_call), cmocka_unit_test(test_reasons_by_kernel_function),
        cmocka_unit_test(test_kernel_thread_reason),   cmocka_unit_test(test_waker_frames),
        cmocka_unit_test(test_waker_description),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
