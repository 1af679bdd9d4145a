/* See nvml_child.h. */
#include "sources/gpu/nvml_child.h"

#include "base/helper_process.h"
#include "base/least_rights.h"
#include "sources/gpu/nvml_library.h"
#include "sources/gpu/nvml_poll.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NICE 5 /* with many devices, a poll can take a while */

static void send_record(void *context, const struct record_header *record)
{
    if (send(*(const int *)context, record, record->size_bytes, MSG_NOSIGNAL) < 0)
        _exit(1); /* the agent is gone */
}

static void send_failure(int socket, const struct nvml_functions *functions, int error)
{
    struct gpu_driver record = {.h = {.size_bytes = sizeof(record), .kind = RECORD_GPU_DRIVER},
                                .state = GPU_DRIVER_FAILS,
                                .error = error,
                                .device = GPU_NO_INSTANCE};
    const char *text = functions->error_text ? functions->error_text(error) : NULL;
    snprintf(record.message, sizeof(record.message), "%s", text ? text : "");
    send_record(&socket, &record.h);
}

_Noreturn void nvml_child_run(int socket, struct nvml_progress *progress, const char *path)
{
    struct nvml_poller poller = {.progress = progress};
    char byte;
    helper_process_keep_only(&socket, 1);
    helper_process_become("sonde-gpu");
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    if (least_rights_enter() < 0 || least_rights_drop_capabilities() < 0)
        _exit(1);
    nvml_progress_begin(progress, NVML_LOAD);
    const int loaded = nvml_progress_end(progress, nvml_library_load(path, &poller.functions));
    int error = loaded < 0 ? NVML_LIBRARY_NOT_FOUND : nvml_poller_init(&poller);
    while (read(socket, &byte, sizeof(byte)) > 0) {
        if (error == NVML_OK)
            error = nvml_poller_poll(&poller, send_record, &socket);
        if (error != NVML_OK)
            break;
    }
    if (error != NVML_OK)
        send_failure(socket, &poller.functions, error);
    _exit(0);
}
