/* admission.c: see admission.h. */
#include "admission.h"

#include <string.h>

#include "tarry_limits.h"

static const char another_cluster[] =
    "this node's data directory belongs to another cluster than the leader's, so nothing was changed: give the address "
    "of another peer; or, if these data may be lost, start this node with an empty directory and --follow";

static struct admission refuse(const char *sentence, bool is_early) {
    return (struct admission){.kind = ADMISSION_REFUSE, .sentence = sentence, .is_early = is_early};
}

/* Checks that the requester is the other node of this pair. Returns NULL, or the reason why it is not. */
static const char *stranger(const struct pair *pair, const struct admission_self *self, const Tarry__Follow *follow) {
    if (follow->log_version != FORMAT_VERSION)
        return "the two brokers write different versions of the log: install the same version of tarryd on both";
    if (follow->coordinated == pair->by_operator)
        return "one of the two nodes has the option coordinator and the other does not: stop both, and give them the "
               "same option";
    if (follow->node != pair->other || follow->member.len != MEMBER_ID_SIZE)
        return "both brokers have the same node id: one of the data directories is a copy. Delete the copy, and start "
               "its broker with an empty directory and --follow";
    if (memcmp(follow->member.data, self->member, MEMBER_ID_SIZE) == 0)
        return "the data directory is a copy of the leader's: delete the copy, and start this node with an empty "
               "directory and --follow";
    return NULL;
}

struct admission admission_of(const struct pair *pair, const struct admission_self *self, const Tarry__Follow *follow) {
    bool is_leading = pair->role == PAIR_LEADING;
    bool is_of_cluster =
        follow->cluster.len == CLUSTER_ID_SIZE && memcmp(follow->cluster.data, self->cluster, CLUSTER_ID_SIZE) == 0;
    if (follow->cluster.len == 0) return (struct admission){.kind = ADMISSION_JOIN};
    /* A node that does not lead cannot know which of the two disks is the wrong one. */
    if (!is_of_cluster) return refuse(another_cluster, !is_leading);
    const char *problem = stranger(pair, self, follow);
    if (problem != NULL) return refuse(problem, false);
    /* The rules of the pair know nodes, not disks. While the leader waits for the node's former disk, it must refuse
     * the node's new disk here (F-29). */
    if (is_leading && pair->counted && hard_state_is_another(self->hard_state, follow->member.data))
        return refuse(
            "this node's disk is new, and the pair still waits for the node's former disk. With a coordinator the pair "
            "accepts the new disk after solo-after; without one, run 'tarry promote --peer-is-stopped' at the primary",
            true);
    return (struct admission){.kind = follow->probes ? ADMISSION_PROBE : ADMISSION_RULES};
}
