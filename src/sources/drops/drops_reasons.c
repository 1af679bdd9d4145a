/* Reads enum skb_drop_reason; see drops_reasons.h. */
#include "sources/drops/drops_reasons.h"

#include "base/cleanup.h"

#include <bpf/btf.h>
#include <stdio.h>
#include <string.h>

static const char prefix[] = "SKB_DROP_REASON_";

bool drops_reasons_read(const struct btf *kernel, struct drops_reasons *ret)
{
    const int id = btf__find_by_name_kind(kernel, "skb_drop_reason", BTF_KIND_ENUM);
    const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(kernel, (uint32_t)id);
    memset(ret, 0, sizeof(*ret));
    if (!type)
        return false;
    const struct btf_enum *values = btf_enum(type);
    for (unsigned i = 0; i < btf_vlen(type); i++) {
        const char *name = btf__name_by_offset(kernel, values[i].name_off);
        const bool is_reason = name && strncmp(name, prefix, sizeof(prefix) - 1) == 0;
        if (is_reason && values[i].val >= 0 && values[i].val < DROPS_REASONS - 1 &&
            strcmp(name + sizeof(prefix) - 1, "MAX") != 0)
            snprintf(ret->names[values[i].val], DROPS_REASON_BYTES, "%s", name + sizeof(prefix) - 1);
    }
    snprintf(ret->names[DROPS_REASONS - 1], DROPS_REASON_BYTES, "other");
    return true;
}

static bool is_in(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

enum drops_class drops_class_of(const char *name)
{
    static const char *const policy[] = {
        "BPF_CGROUP_EGRESS", "IP_RPFILTER", "NETFILTER_DROP", "SECURITY_HOOK", "TC_EGRESS",
        "TC_INGRESS",        "XDP",         "XFRM_POLICY"};
    /* Duplicates, packets for closed sockets or other hosts, packets left in a closed socket, and packets without a
     * reason. */
    static const char *const expected[] = {"IPV6DISABLED",
                                           "IPV6_NDISC_NS_OTHERHOST",
                                           "IP_NOPROTO",
                                           "NOT_SPECIFIED",
                                           "NO_SOCKET",
                                           "OTHERHOST",
                                           "PACKET_SOCK_ERROR",
                                           "QUEUE_PURGE",
                                           "SOCKET_CLOSE",
                                           "SOCKET_FILTER",
                                           "TAP_FILTER",
                                           "TAP_TXFILTER",
                                           "TCP_ABORT_ON_DATA",
                                           "TCP_ACK_UNSENT_DATA",
                                           "TCP_CLOSE",
                                           "TCP_FASTOPEN",
                                           "TCP_FLAGS",
                                           "TCP_INVALID_ACK_SEQUENCE",
                                           "TCP_INVALID_SEQUENCE",
                                           "TCP_INVALID_SYN",
                                           "TCP_OFOMERGE",
                                           "TCP_OLD_ACK",
                                           "TCP_OLD_DATA",
                                           "TCP_OLD_SEQUENCE",
                                           "TCP_RESET",
                                           "TCP_RFC7323_PAWS_ACK",
                                           "TCP_RFC7323_TW_PAWS",
                                           "TCP_TOO_OLD_ACK",
                                           "UNHANDLED_PROTO",
                                           "UNICAST_IN_L2_MULTICAST",
                                           "UNIX_DISCONNECT",
                                           "UNIX_SKIP_OOB"};
    if (is_in(name, policy, array_size(policy)))
        return DROPS_POLICY;
    return !name[0] || is_in(name, expected, array_size(expected)) ? DROPS_EXPECTED : DROPS_FAULT;
}
