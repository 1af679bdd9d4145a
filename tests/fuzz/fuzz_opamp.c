/* Arbitrary bytes as both messages of OpAMP: reading stays within them, and texts for people and logs are lines. */
#include "send/opamp_reply.h"
#include "server/opamp_report.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t uid[OPAMP_UID_BYTES] = "0123456789abcdef";
    struct opamp_report report;
    struct opamp_reply reply;
    if (opamp_report_read(cursor_make(data, size), &report) == 0 &&
        (report.instance_uid.size != OPAMP_UID_BYTES || report.config.size > size))
        abort();
    (void)opamp_reply_read(data, size, uid, &reply);
    if (strpbrk(report.problems, "\r\n") || strpbrk(reply.error, "\r\n") ||
        !memchr(reply.error, '\0', sizeof(reply.error)))
        abort();
    return 0;
}
