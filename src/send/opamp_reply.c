/* ServerToAgent; see opamp_reply.h. */
#include "send/opamp_reply.h"

#include "base/protobuf.h"

#include <errno.h>
#include <string.h>

static void read_retry(struct cursor c, struct opamp_reply *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == RETRY_INFO_NANOSECONDS && f.wire == PROTOBUF_VARINT)
            ret->retry_ns = f.value;
}

static bool read_error(struct cursor c, struct opamp_reply *ret)
{
    struct protobuf_field f;
    ret->has_error = true;
    while (protobuf_next_field(&c, &f))
        if (f.number == SERVER_ERROR_MESSAGE && f.wire == PROTOBUF_BYTES)
            otlp_keep_words(ret->error, f.inside.data, f.inside.size);
        else if (f.number == SERVER_ERROR_RETRY && f.wire == PROTOBUF_BYTES)
            read_retry(f.inside, ret);
    return !c.failed;
}

static bool read_identification(struct cursor c, struct opamp_reply *ret)
{
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.number == IDENTIFICATION_NEW_UID && f.wire == PROTOBUF_BYTES && f.inside.size == OPAMP_UID_BYTES) {
            memcpy(ret->new_uid, f.inside.data, OPAMP_UID_BYTES);
            ret->has_new_uid = true;
        }
    return !c.failed;
}

/* Fields with another wire type than their own, and fields of other capabilities, are skipped. */
static bool read_field(const struct protobuf_field *f, struct opamp_reply *ret)
{
    if (f->number == SERVER_TO_AGENT_FLAGS && f->wire == PROTOBUF_VARINT)
        ret->wants_full_state = f->value & SERVER_WANTS_FULL_STATE;
    else if (f->number == SERVER_TO_AGENT_ERROR && f->wire == PROTOBUF_BYTES)
        return read_error(f->inside, ret);
    else if (f->number == SERVER_TO_AGENT_IDENTIFICATION && f->wire == PROTOBUF_BYTES)
        return read_identification(f->inside, ret);
    return true;
}

int opamp_reply_read(const void *body, size_t size, const uint8_t uid[OPAMP_UID_BYTES], struct opamp_reply *ret)
{
    struct cursor c = cursor_make(body, size);
    struct protobuf_field f;
    bool is_own = false;
    *ret = (struct opamp_reply){0};
    while (protobuf_next_field(&c, &f)) {
        if (f.number == SERVER_TO_AGENT_INSTANCE_UID && f.wire == PROTOBUF_BYTES)
            is_own = f.inside.size == OPAMP_UID_BYTES && memcmp(f.inside.data, uid, OPAMP_UID_BYTES) == 0;
        else if (!read_field(&f, ret))
            return -EBADMSG;
    }
    return c.failed ? -EBADMSG : is_own ? 0 : -ENXIO;
}
