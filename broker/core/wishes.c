/* wishes.c: see wishes.h. */
#include "wishes.h"

#include <string.h>

#include "leases.h"
#include "near.h"

static uint32_t *chain_of(const struct core *core, const char *name) {
    return &core->wish_names[row_key_hash(0, name, strlen(name)) & (WISH_TABLE_SIZE - 1)];
}

static bool is_waiting(const struct session *session, const char *name) {
    const struct wish *wish = NULL;
    TAILQ_FOREACH(wish, &session->wishes, of_session)
    if (strcmp(wish->name, name) == 0) return true;
    return false;
}

void wish_add(struct core *core, struct session *session, const char *name) {
    if (is_waiting(session, name)) return; /* named twice */
    struct wish *wish = TAILQ_FIRST(&core->wishes_free);
    if (wish) {
        TAILQ_REMOVE(&core->wishes_free, wish, of_session);
    } else {
        assert(core->wishes_used < QUEUES_AWAITED_MAX);
        wish = &core->wishes[core->wishes_used++];
    }
    uint32_t *chain = chain_of(core, name);
    wish->session = session;
    memcpy(wish->name, name, strlen(name) + 1);
    wish->by_name_next = *chain;
    *chain = (uint32_t)(wish - core->wishes) + 1;
    TAILQ_INSERT_TAIL(&session->wishes, wish, of_session);
    session->wish_count++;
    core->wish_count++;
}

static void drop(struct core *core, struct wish *wish) {
    uint32_t *at = chain_of(core, wish->name);
    while (&core->wishes[*at - 1] != wish) at = &core->wishes[*at - 1].by_name_next;
    *at = wish->by_name_next;
    TAILQ_REMOVE(&wish->session->wishes, wish, of_session);
    wish->session->wish_count--;
    core->wish_count--;
    wish->session = NULL;
    TAILQ_INSERT_HEAD(&core->wishes_free, wish, of_session);
}

void wishes_drop(struct core *core, struct session *session) {
    struct wish *wish = NULL;
    while ((wish = TAILQ_FIRST(&session->wishes))) drop(core, wish);
}

void wishes_grant(struct core *core, struct queue *queue) {
    uint32_t next = *chain_of(core, queue->name);
    while (next) {
        struct wish *wish = &core->wishes[next - 1];
        next = wish->by_name_next;
        if (strcmp(wish->name, queue->name) != 0) continue;
        struct session *session = wish->session;
        drop(core, wish);
        session_subscribe_to(core, session, queue);
    }
}

bool wish_is_pending(const struct core *core, const char *name) {
    for (uint32_t next = *chain_of(core, name); next; next = core->wishes[next - 1].by_name_next)
        if (strcmp(core->wishes[next - 1].name, name) == 0) return true;
    return false;
}
