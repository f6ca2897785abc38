/* node_laws.c: laws for nodes that a pair counts as in sync; see node.h. */
#include <stdio.h>
#include <string.h>

#include "../must.h"
#include "node.h"
#include "registrar.h"
#include "world.h"

/* Returns whether the pair's record lists the node as in sync. Without a coordinator, the other node's hard state
 * replaces the record: it must have this node as its peer, and must not say that the other node served alone. */
static bool is_counted(const struct world *world, const struct host *host) {
    const struct registrar *registrar = world->registrar;
    const struct hard_state *others = &world->hosts[1 - host->number].node->hard_state;
    if (world->options.pair.by_operator)
        return !others->alone && memcmp(others->peer, host->node->member, MEMBER_ID_SIZE) == 0;
    const struct registrar_entry *entry = registrar_newest(registrar);
    bool is_in_sync = entry->version != 0 && (entry->record.pair.in_sync & 1u << host->number) != 0;
    const uint8_t *member = entry->record.members[host->number].id;
    return is_in_sync && memcmp(member, host->node->member, MEMBER_ID_SIZE) == 0;
}

void node_check_members(struct world *world) {
    for (uint32_t i = 0; i < HOSTS_MAX && world->truth.count > 0; i++) {
        const struct host *host = &world->hosts[i];
        if (!is_counted(world, host)) continue;
        MUST(truth_has(world, host, world->truth.count)); /* R3, R4 */
        MUST(host->frames[world->truth.count - 1].end <=
             host->promised); /* R2: the position reported as durable must cover all acknowledged frames */
    }
}

/* A time that is longer than a read of the pair's record, than an abandoned hand-over, and than a pause of the process
 * that was not noticed. */
#define LAW_LONG_NS (4000 * NS_PER_MS)
/* A call that was lost while its node was cut off delays the node's next question until that call times out. */
#define LAW_CALL_NS (COORDINATOR_CALL_MS * NS_PER_MS)

bool node_disk_hangs(const struct world *world) {
    const struct host *host = world->host;
    if (host->sync_since_ns == 0) return false;
    return world->now_ns - host->sync_since_ns >= host->sync_stood_ns + LEADER_DISK_HUNG_MS * NS_PER_MS;
}

/* F-13, F-31c: checks that no node takes over from a healthy leader that is present at the coordinator, even if links
 * between the nodes are cut. A leader with a hung disk is not healthy: it stops writing its presence, so that the other
 * node may lead (F-31a, history 123045628). The check is omitted while messages to the coordinator may be late or lost.
 */
void node_check_claim(const struct world *world) {
    const struct registrar *registrar = world->registrar;
    const struct node *self = world->host->node;
    uint32_t number = 1 - world->host->number;
    MUST(!world->is_steady);
    const struct host *leader = &world->hosts[number];
    uint64_t long_ago_ns = world->now_ns > LAW_LONG_NS ? world->now_ns - LAW_LONG_NS : 0;
    if (registrar == NULL || registrar->lost_permille != 0 || registrar->late_permille != 0) return;
    bool leads = leader->state == HOST_UP && !leader->node->ended && leader->node->pair.role == PAIR_LEADING &&
                 leader->node->pair.epoch == registrar_newest(registrar)->record.pair.epoch;
    bool is_healthy = leads && leader->paused_until_ns == 0 && leader->node->handed_ns < long_ago_ns;
    char words[COORDINATOR_PRESENCE_SIZE_MAX + 1];
    snprintf(words, sizeof words, "leads epoch %u ",
             leader->node->pair.epoch); /* the coordinator may still have the leader's presence of an earlier epoch */
    bool is_present = registrar->present_until_ns[number] > world->now_ns &&
                      strncmp(registrar->present[number], words, strlen(words)) == 0 &&
                      registrar->present_since_ns[number] < long_ago_ns && !registrar->cut[number] &&
                      registrar->reached_since_ns[number] + LAW_CALL_NS < long_ago_ns;
    MUST(!is_healthy || !is_present || self->overslept_ns >= long_ago_ns);
}

/* ---- the answers of a follower (TRUE-1) */

void node_take_word(struct world *world, const struct node_message *message) {
    const struct host *host = world->host;
    struct node_following *following = &host->node->following;
    const struct pair *pair = &host->node->pair;
    const Tarry__FollowReply *answer = &message->answer;
    if (pair->role != PAIR_FOLLOWING || answer->epoch != pair->epoch || answer->known == 0) return;
    MUST(message->covered >= message->acknowledged);
    following->words[following->word_next++ % NODE_WORDS] =
        (struct node_word){message->asked_ns, message->acknowledged};
    freshness_heard(&following->fresh, answer->epoch, message->asked_ns, answer->known, core_position(host->core));
}

size_t node_proved(struct world *world) {
    const struct host *host = world->host;
    struct node_following *following = &host->node->following;
    freshness_applied(&following->fresh, core_position(host->core));
    size_t acknowledged =
        SIZE_MAX; /* two questions may have been sent at the same time; the smaller number is certain */
    for (size_t i = 0; i < NODE_WORDS; i++) {
        const struct node_word *word = &following->words[i];
        bool is_it = word->asked_ns != 0 && word->asked_ns == following->fresh.proved.asked_ns;
        if (is_it && word->acknowledged < acknowledged) acknowledged = word->acknowledged;
    }
    return acknowledged == SIZE_MAX ? 0 : acknowledged;
}

void node_check_fresh(struct world *world, const struct core_reply *reply, size_t known, size_t proved) {
    const struct host *host = world->host, *other = &world->hosts[1 - host->number];
    const uint64_t now_ns = world_boot_ns(world), position = reply->reply->position;
    MUST(host_frames_below(host, position) >= proved);
    if (known == 0 || !truth_has(world, other, known)) return;
    struct freshness_wish wish = {.at_least = other->frames[known - 1].end, .until_ns = now_ns};
    enum freshness_verdict verdict = freshness_judge(&host->node->following.fresh, &wish, true, position, now_ns);
    MUST((verdict == FRESH_ENOUGH) == (host_frames_below(host, position) >= known));
}
