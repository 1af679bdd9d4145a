/* Reads a stream of server-sent events byte by byte, over any split into sends, and counts events and tokens; and finds
 * the model that a request body names. Used by request.bpf.c and, for tests, in user space.
 *
 * All state is in a struct stream_scan, which begins as zeros. It is accessed as volatile: the verifier then knows
 * nothing of it, and examines each byte's branches once. Nothing of a text is kept but the model's name. */
#pragma once

#include "probes/request.h"

#ifdef __clang__
#define STREAM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define STREAM_UNROLL
#endif

/* Where in the reply, or in the request, the next byte is. */
enum stream_place {
    STREAM_PLACE_NONE,     /* nothing is read */
    STREAM_PLACE_HEAD,     /* in the header of a reply */
    STREAM_PLACE_BODY,     /* in a body that is not chunked */
    STREAM_PLACE_SIZE,     /* in the line before a chunk */
    STREAM_PLACE_SIZE_END, /* in that line, behind the number */
    STREAM_PLACE_CHUNK,    /* in a chunk */
    STREAM_PLACE_CHUNK_END,
    STREAM_PLACE_LOST,    /* behind bytes that were not read, or that were no chunk */
    STREAM_PLACE_END,     /* behind the last chunk */
    STREAM_PLACE_REQUEST, /* in the header of a request */
    STREAM_PLACE_JSON,    /* in its body */
};

/* In a line of an event. */
enum stream_line { STREAM_LINE_START, STREAM_LINE_NAME, STREAM_LINE_SPACE, STREAM_LINE_DATA, STREAM_LINE_OTHER };

/* In JSON: behind a key of interest, behind its colon, in its value. */
enum stream_value {
    STREAM_VALUE_NONE,
    STREAM_VALUE_TEXT_KEY,
    STREAM_VALUE_TEXT_COLON,
    STREAM_VALUE_TEXT,
    STREAM_VALUE_COUNT_KEY,
    STREAM_VALUE_COUNT_COLON,
    STREAM_VALUE_COUNT,
    STREAM_VALUE_MODEL_KEY,
    STREAM_VALUE_MODEL_COLON,
    STREAM_VALUE_MODEL,
};

#define STREAM_EVENT_DATA      1  /* the event has a line of data */
#define STREAM_EVENT_TEXT      2  /* with text that is not empty: a token */
#define STREAM_EVENT_DONE      4  /* "[DONE]" */
#define STREAM_AFTER_CR        8  /* the last byte was one: a line feed belongs to it */
#define STREAM_HEAD_IS_EVENTS  16 /* the header's Content-Type is text/event-stream, */
#define STREAM_HEAD_IS_CHUNKED 32 /* and the body comes in chunks */
#define STREAM_IN_STRING       64 /* of a request's JSON */
#define STREAM_ESCAPED         128

struct stream_scan {
    __u32 hash; /* of the current word: of a line, a field's name, or a JSON string */
    __u32 chunk_left;
    __u32 number;
    __u32 chunks; /* events with data other than "[DONE]" */
    __u32 tokens; /* of them, those with text */
    __u32 usage;  /* the tokens that the server counted; 0: it has not said */
    __u8 place;   /* enum stream_place */
    __u8 line;
    __u8 value;
    __u8 flags;
    __u32 model_bytes;
    __u32 depth;
    char model[REQUEST_MODEL_BYTES];
};

typedef volatile struct stream_scan *stream_scan_t;

/* FNV-1a */
#define STREAM_HASH_START 2166136261u
#define STREAM_HASH_PRIME 16777619u

static inline __attribute__((always_inline)) __u32 stream_hash(__u32 hash, __u8 byte)
{
    return (hash ^ byte) * STREAM_HASH_PRIME;
}

/* Of a literal: a constant. */
static inline __attribute__((always_inline)) __u32 stream_word(const char *text)
{
    __u32 hash = STREAM_HASH_START;
    STREAM_UNROLL
    for (unsigned i = 0; text[i]; i++)
        hash = stream_hash(hash, (__u8)text[i]);
    return hash;
}

/* The keys of text in the events of OpenAI's, Anthropic's, TGI's, Triton's and llama.cpp's servers. */
static inline __attribute__((always_inline)) _Bool stream_is_text_key(__u32 hash)
{
    return hash == stream_word("content") || hash == stream_word("text") || hash == stream_word("delta") ||
           hash == stream_word("reasoning_content") || hash == stream_word("reasoning") ||
           hash == stream_word("arguments") || hash == stream_word("text_output");
}

static inline __attribute__((always_inline)) _Bool stream_is_count_key(__u32 hash)
{
    return hash == stream_word("completion_tokens") || hash == stream_word("output_tokens") ||
           hash == stream_word("generated_tokens");
}

static inline __attribute__((always_inline)) _Bool stream_is_digit(__u8 byte)
{
    return byte >= '0' && byte <= '9';
}

/* A byte of a line of data. */
static inline __attribute__((always_inline)) void stream_data_byte(stream_scan_t s, __u8 byte)
{
    const __u8 value = s->value;
    const __u32 hash = s->hash;
    if (byte == '"') {
        s->value = value == STREAM_VALUE_TEXT_COLON ? STREAM_VALUE_TEXT
                   : stream_is_text_key(hash)       ? STREAM_VALUE_TEXT_KEY
                   : stream_is_count_key(hash)      ? STREAM_VALUE_COUNT_KEY
                                                    : STREAM_VALUE_NONE;
        s->hash = STREAM_HASH_START;
        return;
    }
    s->hash = stream_hash(hash, byte);
    if (value == STREAM_VALUE_NONE)
        return;
    if (value == STREAM_VALUE_TEXT) {
        s->flags |= STREAM_EVENT_TEXT;
        s->value = STREAM_VALUE_NONE;
    } else if (value == STREAM_VALUE_COUNT || value == STREAM_VALUE_COUNT_COLON) {
        if (stream_is_digit(byte)) {
            const __u32 number = value == STREAM_VALUE_COUNT ? s->number : 0;
            s->number = number < 100000000 ? number * 10 + (byte - '0') : number;
            s->value = STREAM_VALUE_COUNT;
        } else if (value == STREAM_VALUE_COUNT) {
            s->usage = s->number;
            s->value = STREAM_VALUE_NONE;
        } else if (byte != ' ' && byte != '\t') {
            s->value = STREAM_VALUE_NONE;
        }
    } else if (byte == ':' && (value == STREAM_VALUE_TEXT_KEY || value == STREAM_VALUE_COUNT_KEY)) {
        s->value = value + 1;
    } else if (byte != ' ' && byte != '\t') {
        s->value = STREAM_VALUE_NONE;
    }
}

/* A blank line ends an event. */
static inline __attribute__((always_inline)) void stream_end_event(stream_scan_t s)
{
    const __u8 flags = s->flags;
    if (flags & STREAM_EVENT_DATA && !(flags & STREAM_EVENT_DONE)) {
        s->chunks++;
        if (flags & STREAM_EVENT_TEXT)
            s->tokens++;
    }
    s->flags = flags & ~(STREAM_EVENT_DATA | STREAM_EVENT_TEXT | STREAM_EVENT_DONE);
}

static inline __attribute__((always_inline)) void stream_end_line(stream_scan_t s)
{
    const __u8 line = s->line;
    if (line == STREAM_LINE_START)
        stream_end_event(s);
    else if (line == STREAM_LINE_DATA && s->value == STREAM_VALUE_COUNT)
        s->usage = s->number;
    else if (line == STREAM_LINE_DATA && s->hash == stream_word("[DONE]"))
        s->flags |= STREAM_EVENT_DONE;
    s->line = STREAM_LINE_START;
    s->hash = STREAM_HASH_START;
}

/* A byte of a body of events. */
static inline __attribute__((always_inline)) void stream_event_byte(stream_scan_t s, __u8 byte)
{
    const __u8 line = s->line, flags = s->flags;
    if (byte == '\n' || byte == '\r') {
        s->flags = byte == '\r' ? flags | STREAM_AFTER_CR : flags & ~STREAM_AFTER_CR;
        if (byte == '\r' || !(flags & STREAM_AFTER_CR))
            stream_end_line(s);
        return;
    }
    if (flags & STREAM_AFTER_CR)
        s->flags = flags & ~STREAM_AFTER_CR;
    if (line == STREAM_LINE_OTHER)
        return;
    if (line == STREAM_LINE_DATA || line == STREAM_LINE_SPACE) {
        s->line = STREAM_LINE_DATA;
        if (line == STREAM_LINE_DATA || byte != ' ')
            stream_data_byte(s, byte);
    } else if (byte == ':') {
        const _Bool is_data = s->hash == stream_word("data");
        s->line = is_data ? STREAM_LINE_SPACE : STREAM_LINE_OTHER;
        s->value = STREAM_VALUE_NONE;
        s->hash = STREAM_HASH_START;
        if (is_data)
            s->flags |= STREAM_EVENT_DATA;
    } else {
        s->line = STREAM_LINE_NAME;
        s->hash = stream_hash(s->hash, byte);
    }
}

/* A byte of a header. Letters are compared without their case, and without blanks. */
static inline __attribute__((always_inline)) void stream_head_byte(stream_scan_t s, __u8 byte)
{
    const __u8 flags = s->flags;
    const __u32 hash = s->hash;
    if (byte == '\r' || byte == ' ' || byte == '\t')
        return;
    if (byte != '\n' && byte != ';') {
        s->hash = stream_hash(hash, byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
        return;
    }
    if (hash == stream_word("content-type:text/event-stream"))
        s->flags = flags | STREAM_HEAD_IS_EVENTS;
    else if (hash == stream_word("transfer-encoding:chunked"))
        s->flags = flags | STREAM_HEAD_IS_CHUNKED;
    else if (byte == '\n' && hash == STREAM_HASH_START)
        s->place = s->place == STREAM_PLACE_REQUEST   ? STREAM_PLACE_JSON
                   : !(flags & STREAM_HEAD_IS_EVENTS) ? STREAM_PLACE_NONE
                   : flags & STREAM_HEAD_IS_CHUNKED   ? STREAM_PLACE_SIZE
                                                      : STREAM_PLACE_BODY;
    s->hash = byte == ';' ? hash + 1 : STREAM_HASH_START; /* the rest of the line is no line of its own */
}

static inline __attribute__((always_inline)) int stream_hex_value(__u8 byte)
{
    if (stream_is_digit(byte))
        return byte - '0';
    byte |= 32;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* A byte between chunks. `depth` counts the digits. */
static inline __attribute__((always_inline)) void stream_frame_byte(stream_scan_t s, __u8 byte)
{
    const __u8 place = s->place;
    if (place == STREAM_PLACE_CHUNK_END) {
        if (byte == '\n')
            s->place = STREAM_PLACE_SIZE;
        else if (byte != '\r')
            s->place = STREAM_PLACE_LOST;
        return;
    }
    const int digit = place == STREAM_PLACE_SIZE ? stream_hex_value(byte) : -1;
    if (digit >= 0 && s->depth < 7) {
        s->chunk_left = s->chunk_left << 4 | (__u32)digit;
        s->depth++;
    } else if (byte == '\n' && s->depth) {
        s->place = s->chunk_left ? STREAM_PLACE_CHUNK : STREAM_PLACE_END;
        s->depth = 0;
    } else if (digit >= 0 || !s->depth) {
        s->place = STREAM_PLACE_LOST;
    } else {
        s->place = STREAM_PLACE_SIZE_END;
    }
}

/* A byte of the name of the model. A name with an escaped character is ignored. */
static inline __attribute__((always_inline)) void stream_model_byte(stream_scan_t s, __u8 byte)
{
    __u32 n = s->model_bytes;
    if (byte == '"') {
        s->place = STREAM_PLACE_NONE;
    } else if (byte == '\\' || byte < ' ') {
        s->model_bytes = 0;
        s->place = STREAM_PLACE_NONE;
    } else if (n < REQUEST_MODEL_BYTES - 1) {
        s->model[n & (REQUEST_MODEL_BYTES - 1)] = (char)byte;
        s->model_bytes = n + 1;
    }
}

/* A byte of the body of a request: the model is the value of "model" in the outermost object. */
static inline __attribute__((always_inline)) void stream_json_byte(stream_scan_t s, __u8 byte)
{
    const __u8 flags = s->flags, value = s->value;
    if (value == STREAM_VALUE_MODEL) {
        stream_model_byte(s, byte);
    } else if (flags & STREAM_IN_STRING) {
        if (flags & STREAM_ESCAPED) {
            s->flags = flags & ~STREAM_ESCAPED;
        } else if (byte == '"') {
            s->flags = flags & ~STREAM_IN_STRING;
            if (s->depth == 1 && s->hash == stream_word("model"))
                s->value = STREAM_VALUE_MODEL_KEY;
        } else if (byte == '\\') {
            s->flags = flags | STREAM_ESCAPED;
        }
        s->hash = stream_hash(s->hash, byte);
    } else if (byte == '"') {
        if (value == STREAM_VALUE_MODEL_COLON) {
            s->value = STREAM_VALUE_MODEL;
            return;
        }
        s->flags = flags | STREAM_IN_STRING;
        s->value = STREAM_VALUE_NONE;
        s->hash = STREAM_HASH_START;
    } else if (byte == ':' && value == STREAM_VALUE_MODEL_KEY) {
        s->value = STREAM_VALUE_MODEL_COLON;
    } else if (byte > ' ') {
        s->value = STREAM_VALUE_NONE;
        if (byte == '{' || byte == '[')
            s->depth++;
        else if (byte == '}' || byte == ']')
            s->depth--;
    }
}

static inline __attribute__((always_inline)) void stream_scan_byte(stream_scan_t s, __u8 byte)
{
    const __u8 place = s->place;
    if (place == STREAM_PLACE_CHUNK) {
        const __u32 left = s->chunk_left - 1;
        s->chunk_left = left;
        if (!left)
            s->place = STREAM_PLACE_CHUNK_END;
    }
    switch (place) {
    case STREAM_PLACE_CHUNK:
    case STREAM_PLACE_BODY:
        stream_event_byte(s, byte);
        break;
    case STREAM_PLACE_HEAD:
    case STREAM_PLACE_REQUEST:
        stream_head_byte(s, byte);
        break;
    case STREAM_PLACE_SIZE:
    case STREAM_PLACE_SIZE_END:
    case STREAM_PLACE_CHUNK_END:
        stream_frame_byte(s, byte);
        break;
    case STREAM_PLACE_JSON:
        stream_json_byte(s, byte);
        break;
    }
}

/* Skips `bytes` that were not read. An event that had begun is assumed to end within them, and the next one to begin
 * after them. If the place where a chunk begins is lost with them, nothing more can be read. */
static inline __attribute__((always_inline)) void stream_scan_skip(stream_scan_t s, __u32 bytes)
{
    const __u8 place = s->place;
    const __u32 left = s->chunk_left;
    if (place != STREAM_PLACE_CHUNK && place != STREAM_PLACE_BODY) {
        s->place = place == STREAM_PLACE_END ? place : STREAM_PLACE_LOST;
        return;
    }
    stream_end_event(s);
    s->line = STREAM_LINE_START;
    s->hash = STREAM_HASH_START;
    if (place == STREAM_PLACE_BODY)
        return;
    s->chunk_left = bytes < left ? left - bytes : 0;
    if (bytes > left + 2)
        s->place = STREAM_PLACE_LOST;
    else if (bytes == left + 2)
        s->place = STREAM_PLACE_SIZE;
    else if (bytes >= left)
        s->place = STREAM_PLACE_CHUNK_END;
}

/* Begins to read at `place`. What the scan of the request found of its model stays. */
static inline __attribute__((always_inline)) void stream_scan_begin(stream_scan_t s, __u8 place)
{
    s->hash = STREAM_HASH_START;
    s->chunk_left = s->number = s->chunks = s->tokens = s->usage = s->depth = 0;
    s->line = STREAM_LINE_START;
    s->value = STREAM_VALUE_NONE;
    s->flags = 0;
    s->place = place;
}

/* The kind of data that a later send of a reply begins with, from at most 16 of its first `bytes`. */
enum stream_beginning {
    STREAM_BEGINS_NOTHING,
    STREAM_BEGINS_EVENT,
    STREAM_BEGINS_CHUNK,      /* an event in a chunk */
    STREAM_BEGINS_CHUNK_SIZE, /* the line before a chunk, alone */
};

#define STREAM_BEGINNING_BYTES 16

static inline __attribute__((always_inline)) _Bool stream_is_field(const char *text, __u32 bytes)
{
    if (bytes && text[0] == ':')
        return 1;
    return bytes >= 5 && ((text[0] == 'd' && text[1] == 'a' && text[2] == 't' && text[3] == 'a' && text[4] == ':') ||
                          (text[0] == 'e' && text[1] == 'v' && text[2] == 'e' && text[3] == 'n' && text[4] == 't') ||
                          (text[0] == 'r' && text[1] == 'e' && text[2] == 't' && text[3] == 'r' && text[4] == 'y') ||
                          (text[0] == 'i' && text[1] == 'd' && text[2] == ':'));
}

static inline __attribute__((always_inline)) enum stream_beginning
stream_find_beginning(const char text[STREAM_BEGINNING_BYTES], __u32 bytes)
{
    __u32 digits = 0;
    while (digits < 7 && digits + 2 < bytes && stream_hex_value((__u8)text[digits]) >= 0)
        digits++;
    const _Bool is_size = digits && digits + 2 <= bytes && text[digits] == '\r' && text[digits + 1] == '\n';
    const __u32 at = is_size ? digits + 2 : 0;
    if (is_size && at == bytes)
        return STREAM_BEGINS_CHUNK_SIZE;
    if (!stream_is_field(text + at, bytes - at))
        return STREAM_BEGINS_NOTHING;
    return is_size ? STREAM_BEGINS_CHUNK : STREAM_BEGINS_EVENT;
}
