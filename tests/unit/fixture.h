/* Samples and profiles for tests of model, aggregate and export. Header only: each test is a program of its own. */
#pragma once

#include "model/profile.h"

#include <stdio.h>
#include <string.h>

static inline struct resource fixture_resource(uint32_t pid, const char *command)
{
    struct resource r = resource_unknown;
    r.pid = pid;
    r.parent_pid = 1;
    r.command = command;
    return r;
}

static inline struct frame fixture_frame(enum frame_kind kind, const char *function, const char *mapping,
                                         uint64_t address)
{
    return (struct frame){.kind = kind,
                          .function = function,
                          .system_name = "",
                          .file = "",
                          .mapping = mapping,
                          .build_id = "",
                          .address = address};
}

static inline struct frame fixture_native(const char *function)
{
    return fixture_frame(FRAME_NATIVE, function, "/usr/bin/program", 0x1000 + strlen(function));
}

static inline int fixture_set_event(struct profile *p, const char *name, const char *unit)
{
    const struct sample_type type = sample_type_of_event(name, unit);
    return profile_set_type(p, &type);
}

static inline int fixture_add(struct profile *p, const struct resource *resource, uint32_t tid, const char *thread,
                              uint64_t value, const struct frame *frames, size_t count)
{
    const struct sample s = {.type = &sample_type_cpu,
                             .time_ns = 1,
                             .value = value,
                             .resource = resource,
                             .tid = tid,
                             .thread_name = thread,
                             .frames = frames,
                             .frame_count = count};
    return profile_add(p, &s);
}

static inline uint64_t fixture_count(const struct profile *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->entry_count; i++)
        sum += p->entries[i].count;
    return sum;
}

static inline uint64_t fixture_weight(const struct profile *p)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->entry_count; i++)
        sum += p->entries[i].value;
    return sum;
}

/* The same with timestamps: i seconds and i ns into the profile of fixture_typical, and a link each. */
static inline int fixture_add_moment(struct profile *p, const struct resource *resource, uint32_t tid, uint64_t value,
                                     const struct frame *frames, size_t count, uint32_t i)
{
    const struct sample s = {.type = &sample_type_cpu,
                             .time_ns = 1,
                             .value = value,
                             .resource = resource,
                             .tid = tid,
                             .thread_name = "thread",
                             .link = {i % 3, i % 3, i % 3 ? 7 : 0},
                             .frames = frames,
                             .frame_count = count};
    return profile_add_moment(p, &s, 1785585600000000000u + i % 60 * 1000000001u);
}

/* A server with two threads and a job in a container, with every kind of frame: 10 samples, 100 ms. */
static inline void fixture_typical(struct profile *p)
{
    p->start_unix_ns = 1785585600000000000u;
    p->duration_ns = 60000000000u;
    p->period = 10000000u;

    struct frame libc =
        fixture_frame(FRAME_NATIVE, "__libc_start_main", "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x27200);
    libc.build_id = "58254ca972028402bc40624f81388d85ec95f70d";
    struct frame main_frame = fixture_frame(FRAME_NATIVE, "main", "/usr/bin/server", 0x1180);
    main_frame.file = "server.c";
    main_frame.line = 42;
    main_frame.build_id = "0123456789abcdef0123456789abcdef01234567";
    struct frame work = fixture_frame(FRAME_NATIVE, "std::vector<int>::push_back(int&&)", "/usr/bin/server", 0x2000);
    work.system_name = "_ZNSt6vectorIiSaIiEE9push_backEOi";
    work.build_id = main_frame.build_id;
    struct frame work_again = work;
    work_again.address = 0x2010; /* the same function at another address */
    const struct frame unnamed = fixture_frame(FRAME_NATIVE, "", "/usr/lib/libcuda.so.1", 0x4711);
    const struct frame kernel = fixture_frame(FRAME_KERNEL, "vfs_read", "[kernel.kallsyms]", 0xffffffff81234567);
    const struct frame module = fixture_frame(FRAME_KERNEL, "", "[nvidia]", 0xffffffffc0001234);
    const struct frame bpf = fixture_frame(FRAME_BPF, "bpf_prog_cafe_filter", "[bpf]", 0xffffffffc1000000);
    const struct frame cut = fixture_frame(FRAME_TRUNCATED, "no unwind table", "", 0);

    struct resource server = fixture_resource(4711, "server");
    server.executable_path = "/usr/bin/server";
    server.service_name = "shop";
    server.service_namespace = "prod";
    server.service_version = "1.2";
    server.systemd_unit = "server.service";
    server.cgroup_path = "/system.slice/server.service";
    server.attributes = "a \"key\"\t\\text\nport\t\t80\n";
    struct resource job = fixture_resource(99, "python3");
    job.executable_path = "/usr/bin/python3.11";
    job.service_name = "train";
    job.container_id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    job.container_runtime = "docker";
    job.kubernetes_pod_uid = "6e2f4c7a-0000-4000-8000-000000000001";
    job.slurm_job_id = "17";
    job.pod = "k8s.namespace.name\tml\nk8s.pod.name\ttrain-0\nk8s.container.name\tworker\nk8s.pod.label.app\ttrain\n";

    for (int i = 0; i < 3; i++)
        fixture_add(p, &server, 4711, "server", 10000000, (struct frame[]){work, main_frame, libc}, 3);
    fixture_add(p, &server, 4711, "server", 10000000, (struct frame[]){work_again, main_frame, libc}, 3);
    fixture_add(p, &server, 4712, "worker; \"1\"", 10000000, (struct frame[]){work, main_frame, libc}, 3);
    fixture_add(p, &server, 4712, "worker; \"1\"", 10000000, (struct frame[]){kernel, main_frame, libc}, 3);
    fixture_add(p, &job, 99, "python3", 10000000, (struct frame[]){unnamed, cut}, 2);
    fixture_add(p, &job, 99, "python3", 10000000, (struct frame[]){module, unnamed, cut}, 3);
    fixture_add(p, &job, 99, "python3", 10000000, (struct frame[]){bpf, kernel}, 2);
    fixture_add(p, &job, 99, "python3", 10000000, NULL, 0);
}

/* Names that no compiler generates, in every place that has a name. 6 samples, 60 ms. */
static inline void fixture_hostile(struct profile *p)
{
    static char large[65537];
    memset(large, 'x', sizeof(large) - 1);
    const char *const names[] = {"quote\" back\\slash <script>&amp; 'x'",
                                 "a;b\nc\td\r\x01\x7f",
                                 "bad \xff\xc0\x80 utf8 \xe2\x82",
                                 "\xed\xa0\x80 \xf4\x90\x80\x80",
                                 large,
                                 "\xf0\x9f\x98\x80 12 34 \xc3\xa9"};
    for (size_t i = 0; i < array_size(names); i++) {
        struct resource resource = fixture_resource(100 + i, names[i]);
        resource.service_name = resource.container_id = resource.cgroup_path = names[i];
        struct frame frames[2] = {fixture_frame(FRAME_NATIVE, names[i], names[i], UINT64_MAX - i),
                                  fixture_frame(FRAME_TRUNCATED, names[i], "", 0)};
        frames[0].file = frames[0].build_id = frames[0].system_name = names[i];
        fixture_add(p, &resource, 7, names[i], 10000000, frames, 2);
    }
}

/* One stack of `depth` frames, each its own function. */
static inline void fixture_deep(struct profile *p, size_t depth)
{
    struct frame *frames = calloc(depth, sizeof(*frames));
    char(*names)[24] = calloc(depth, sizeof(*names));
    struct resource resource = fixture_resource(1, "deep");
    for (size_t i = 0; i < depth; i++) {
        snprintf(names[i], sizeof(names[i]), "f%zu", i);
        frames[i] = fixture_frame(FRAME_NATIVE, names[i], "/bin/deep", 0x1000 + i);
    }
    fixture_add(p, &resource, 1, "deep", 10000000, frames, depth);
    free(frames);
    free(names);
}
