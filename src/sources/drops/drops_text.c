/* Words for what was lost: the peer and the cgroup; see drops.h and drops_private.h. */
#include "sources/drops/drops_private.h"

#include "base/peer.h"

const char *drops_peer_text(const struct drops_peer *peer, char out[DROPS_PEER_BYTES])
{
    return peer_text(peer->family, peer->address, peer->port, out, DROPS_PEER_BYTES)[0] ? out : "other";
}

const char *drops_cgroup_text(const struct cgroup_names *names, uint64_t cgroup_id)
{
    return cgroup_id == DROPS_NO_SOCKET ? "none" : cgroup_names_find(names, cgroup_id);
}
