/* Chooses frames and words them; see code_place.h. */
#include "diagnose/code/code_place.h"

#include "base/cleanup.h"
#include "base/starts_with.h"
#include "diagnose/code/code_origin.h"
#include "diagnose/code/frame_name.h"
#include "model/request.h"

#include <stdio.h>
#include <string.h>

#define FRAMES_SHOWN 3
#define NAME_BYTES   33 /* of a function in a list of them */

static bool is_code(const struct frame *f)
{
    return f->kind != FRAME_TRUNCATED && f->kind != FRAME_WAIT;
}

size_t code_place_own_frame(const struct frame *frames, size_t count)
{
    bool has_runtime = false;
    for (size_t i = 0; i < count; i++)
        has_runtime |= frame_kind_has_lines(frames[i].kind);
    for (size_t i = 0; i < count; i++) {
        const enum code_origin origin = code_origin(&frames[i], has_runtime);
        if (origin == CODE_DISPATCHER)
            break;
        if (origin == CODE_OWN && frames[i].function[0])
            return i;
    }
    return count;
}

/* ---- garbage collection ---- */

/* Functions in all stacks of a pause for garbage collection, or of the work that a thread has to do for one. */
static bool is_collector(const char *function)
{
    static const char *const prefixes[] = {
        "v8::internal::Heap::CollectGarbage",
        "v8::internal::MarkCompactCollector",
        "v8::internal::ConcurrentMarking",
        "v8::internal::Scaveng",
        "v8::internal::Sweeper",
        "v8::internal::PageEvacuationJob",
        "VM_GenCollect",
        "VM_CollectFor",
        "VM_G1",
        "VM_ParallelGC",
        "VM_Shenandoah",
        "VM_Z",
        "G1Adjust",
        "G1CM",
        "G1Concurrent",
        "G1Evac",
        "G1Full",
        "G1Par",
        "G1Remark",
        "G1Root",
        "G1STW",
        "G1Young",
        "PSParallelCompact",
        "PSPromotion",
        "PSScavenge",
        "ScavengeRoots",
        "ShenandoahConcurrentMark",
        "ShenandoahEvacuation",
        "ShenandoahFullGC",
        "ShenandoahMark",
        "ShenandoahUpdateHeap",
        "ZMark",
        "ZRelocate",
        "runtime.gcStart",
        "runtime.gcAssistAlloc",
        "runtime.gcBgMarkWorker",
        "runtime.gcMarkTermination",
        "gc_collect_main",
    };
    for (size_t i = 0; i < array_size(prefixes); i++)
        if (starts_with(function, prefixes[i]))
            return true;
    return false;
}

/* A collector is named by its outermost function, as the innermost ones differ. */
static bool put_collector(const struct frame *frames, size_t count, char out[CODE_RUNS_BYTES])
{
    char name[NAME_BYTES];
    for (size_t i = count; i-- > 0;)
        if (is_collector(frames[i].function)) {
            snprintf(out, CODE_RUNS_BYTES, REQUEST_CODE_COLLECTION ": %s",
                     frame_name_text(&frames[i], name, sizeof(name)));
            return true;
        }
    return false;
}

/* ---- names ---- */

static void append_name(const struct frame *f, char *out, size_t size)
{
    char name[NAME_BYTES];
    const size_t used = strlen(out);
    frame_name_text(f, name, sizeof(name));
    snprintf(out + used, size - used, "%s%s", used ? " < " : "", name);
}

static void put_innermost(const struct frame *frames, size_t count, char out[CODE_RUNS_BYTES])
{
    size_t shown = 0;
    for (size_t i = 0; i < count && shown < FRAMES_SHOWN; i++)
        if (is_code(&frames[i])) {
            append_name(&frames[i], out, CODE_RUNS_BYTES);
            shown++;
        }
}

/* Functions that run bytecode: their names say nothing about the program. */
static bool is_interpreter_loop(const char *function)
{
    return !function[0] || starts_with(function, "_PyEval_EvalFrame") || starts_with(function, "Builtins_") ||
           strcmp(function, "Interpreter") == 0;
}

static void put_leaf(const struct frame *frames, size_t own, char out[CODE_RUNS_BYTES])
{
    for (size_t i = 0; i < own; i++)
        if (is_code(&frames[i]) && !is_interpreter_loop(frames[i].function)) {
            frame_name_text(&frames[i], out, CODE_FUNCTION_BYTES);
            return;
        }
}

/* The end of the function's name: where its parameters begin, or what a compiler appended to it ("parse.part.0"). Those
 * of Go have the receiver in parentheses: "main.(*server).handle"; and "(anonymous namespace)::f", "operator()" are
 * parts of names. */
static size_t name_length(const char *name)
{
    static const char *const suffixes[] = {".part.", ".constprop.", ".isra.", ".cold", ".lto_priv."};
    for (size_t i = 0; i < array_size(suffixes); i++) {
        const char *suffix = strstr(name, suffixes[i]);
        if (suffix)
            return (size_t)(suffix - name);
    }
    const char *paren = strchr(name, '(');
    return !paren || paren == name || paren[-1] == '.' || paren[1] == 'a' || strstr(name, "operator(")
               ? strlen(name)
               : (size_t)(paren - name);
}

/* The start of the name, after the type of the result: "void A.f()". Only types of Java and .NET come first. */
static const char *name_start(const char *function, size_t length)
{
    const char *start = function;
    for (size_t i = 0; i < length; i++) {
        if (function[i] == '<')
            return start;
        if (function[i] == ' ')
            start = function + i + 1;
    }
    return start;
}

const char *code_place_function(const char *function, char out[CODE_FUNCTION_BYTES])
{
    const size_t end = name_length(function);
    const bool has_parameters = function[end] == '(';
    const char *start = has_parameters ? name_start(function, end) : function;
    const size_t length = end - (size_t)(start - function);
    const bool is_long = length > CODE_FUNCTION_BYTES - 3;
    const bool is_called = length && (function[end] || start[length - 1] != ')') && start[length - 1] != '>';
    /* Keeps the end of a long name: packages come first, and the end is more specific. */
    snprintf(out, CODE_FUNCTION_BYTES, "%s%.*s%s", is_long ? "..." : "",
             (int)(is_long ? CODE_FUNCTION_BYTES - 6 : length),
             is_long ? start + length - (CODE_FUNCTION_BYTES - 6) : start, is_called ? "()" : "");
    return out;
}

static void put_function(const struct frame *f, struct code_place *ret)
{
    char name[FRAME_TEXT_BYTES];
    const char *slash = strrchr(f->file, '/');
    frame_name_text(f, name, sizeof(name));
    code_place_function(name, ret->function);
    frame_name_printable(slash && slash[1] ? slash + 1 : f->file, ret->file, sizeof(ret->file));
    ret->line = f->line;
    ret->is_first_line = f->is_first_line && f->line;
}

void code_place_of(const struct frame *frames, size_t count, struct code_place *ret)
{
    const size_t own = code_place_own_frame(frames, count);
    *ret = (struct code_place){0};
    if (own < count)
        put_function(&frames[own], ret);
    if (put_collector(frames, own < count ? own : count, ret->runs))
        return;
    if (own < count)
        put_leaf(frames, own, ret->runs);
    else
        put_innermost(frames, count, ret->runs);
}

const char *code_place_text(const struct code_place *p, char out[CODE_TEXT_BYTES])
{
    char line[16] = "", where[CODE_FILE_BYTES + 32] = "";
    if (p->line)
        snprintf(line, sizeof(line), ":%u", p->line);
    if (p->file[0])
        snprintf(where, sizeof(where), " %s%s%s%s", p->is_first_line ? "(begins at " : "", p->file, line,
                 p->is_first_line ? ")" : "");
    if (p->function[0])
        snprintf(out, CODE_TEXT_BYTES, "%s%s%s%s", p->function, where, p->runs[0] ? REQUEST_CODE_RUNNING : "", p->runs);
    else
        snprintf(out, CODE_TEXT_BYTES, "%s", p->runs);
    return out;
}
