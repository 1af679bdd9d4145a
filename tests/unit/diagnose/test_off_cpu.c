/* The leaf that tells why a thread waited, for each reason that there is. */
#include "diagnose/off_cpu.h"

#include "base/cleanup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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

static void test_reasons(void **state)
{
    (void)state;
    expect(SYS_clock_nanosleep, REQUEST_OBJECT_NONE, 0, NULL, "[sleep: clock_nanosleep]");
    expect(SYS_futex, REQUEST_OBJECT_NONE, 0, NULL, "[lock: futex]");
    expect(SYS_flock, REQUEST_OBJECT_FILE, 0, NULL, "[lock: flock]");
    expect(SYS_pread64, REQUEST_OBJECT_FILE, REQUEST_WAIT_IO | REQUEST_WAIT_UNINTERRUPTIBLE, NULL, "[disk: pread64]");
    expect(SYS_read, REQUEST_OBJECT_SOCKET, 0, NULL, "[network: read]");
    expect(SYS_recvmsg, REQUEST_OBJECT_UNIX, 0, NULL, "[ipc: recvmsg]");
    expect(SYS_read, REQUEST_OBJECT_PIPE, 0, NULL, "[ipc: read]");
    expect(SYS_read, REQUEST_OBJECT_OTHER, 0, NULL, "[other: read]");
    expect(SYS_ppoll, REQUEST_OBJECT_NONE, 0, NULL, "[events: ppoll]");
    expect(SYS_ppoll, REQUEST_OBJECT_SOCKET, 0, NULL, "[network: ppoll]");
    expect(SYS_wait4, REQUEST_OBJECT_NONE, 0, NULL, "[child: wait4]");
    expect(SYS_rt_sigtimedwait, REQUEST_OBJECT_NONE, 0, NULL, "[signal: rt_sigtimedwait]");
    expect(SYS_read, REQUEST_OBJECT_PIPE, REQUEST_WAIT_STOPPED, NULL, "[stopped: read]");
    expect(-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_IO, NULL, "[disk: page fault]");
    expect(-1, REQUEST_OBJECT_NONE, REQUEST_WAIT_UNINTERRUPTIBLE, &rwsem, "[lock: page fault]");
}

static void test_kernel_thread(void **state)
{
    (void)state;
    const struct off_cpu_wait wait = {.syscall = -1};
    const struct sample s = {.frames = &rwsem, .frame_count = 1};
    char out[OFF_CPU_TEXT_BYTES];
    assert_string_equal(off_cpu_text(&wait, &s, out), "[lock: kernel thread]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_kernel_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
