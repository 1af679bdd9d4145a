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

/* False: it is too long, or has a NUL. */
static bool copy_text(char *ret, size_t size, struct cursor text)
{
    if (text.size >= size || memchr(text.size ? (const char *)text.data : "", '\0', text.size))
        return false;
    memcpy(ret, text.size ? (const char *)text.data : "", text.size);
    ret[text.size] = '\0';
    return true;
}

static bool read_capture(struct cursor c, struct opamp_capture *ret)
{
    struct protobuf_field f;
    bool fits = true;
    ret->is_known = true;
    while (protobuf_next_field(&c, &f)) {
        if (f.wire == PROTOBUF_VARINT && f.number == CAPTURE_SECONDS)
            ret->seconds = f.value <= OPAMP_CAPTURE_SECONDS ? (uint32_t)f.value : 0;
        else if (f.wire == PROTOBUF_VARINT && f.number == CAPTURE_PID)
            fits &= (ret->pid = (uint32_t)f.value) == f.value;
        else if (f.wire == PROTOBUF_VARINT && f.number == CAPTURE_KIND && f.value <= CAPTURE_OFF_CPU)
            ret->is_off_cpu = f.value == CAPTURE_OFF_CPU;
        else if (f.wire == PROTOBUF_BYTES && f.number == CAPTURE_ID)
            fits &= copy_text(ret->id, sizeof(ret->id), f.inside);
        else if (f.wire == PROTOBUF_BYTES && f.number == CAPTURE_CONTAINER)
            fits &= copy_text(ret->container, sizeof(ret->container), f.inside);
        else if (f.wire == PROTOBUF_BYTES && f.number == CAPTURE_SERVICE)
            fits &= copy_text(ret->service, sizeof(ret->service), f.inside);
        else
            ret->is_known = false;
    }
    return !c.failed && fits && ret->id[0];
}

/* Messages of other capabilities are ignored, as OpAMP wants it. */
static bool read_custom(struct cursor c, struct opamp_reply *ret)
{
    struct cursor capability = {0}, type = {0}, data = {0};
    struct protobuf_field f;
    while (protobuf_next_field(&c, &f))
        if (f.wire == PROTOBUF_BYTES && f.number == CUSTOM_MESSAGE_CAPABILITY)
            capability = f.inside;
        else if (f.wire == PROTOBUF_BYTES && f.number == CUSTOM_MESSAGE_TYPE)
            type = f.inside;
        else if (f.wire == PROTOBUF_BYTES && f.number == CUSTOM_MESSAGE_DATA)
            data = f.inside;
    if (c.failed || !cursor_is(capability, OPAMP_CAPTURE) || !cursor_is(type, OPAMP_CAPTURE_START))
        return !c.failed;
    ret->has_capture = true;
    return read_capture(data, &ret->capture);
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
    else if (f->number == SERVER_TO_AGENT_CUSTOM_MESSAGE && f->wire == PROTOBUF_BYTES)
        return read_custom(f->inside, ret);
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
