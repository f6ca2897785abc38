/* wishes.c: see wishes.h. */
#include "wishes.h"

#include <string.h>

#include "frame.h"
#include "leases.h"
#include "near.h"

static uint32_t *chain_of(const struct core *core, const char *name) {
    return &core->awaited_names[row_key_hash(0, name, strlen(name)) & (AWAITED_TABLE_SIZE - 1)];
}

static struct awaited *find(const struct core *core, const char *name) {
    uint32_t next = *chain_of(core, name);
    while (next && strcmp(core->awaited[next - 1].name, name) != 0) next = core->awaited[next - 1].by_name_next;
    return next ? &core->awaited[next - 1] : NULL;
}

bool wish_is_pending(const struct core *core, const char *name) {
    return find(core, name) != NULL;
}

uint32_t wishes_count_of(const struct core *core, const char *principal) {
    const uint64_t owner = principal_owner(principal);
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->awaited_end; i++)
        count += core->awaited_owners[i] == owner && !TAILQ_EMPTY(&core->awaited[i].wishes);
    return count;
}

static struct awaited *awaited_new(struct core *core, const char *name, uint64_t owner) {
    assert(core->awaited_count < QUEUES_AWAITED_MAX);
    uint32_t index = core->awaited_free ? core->awaited_free - 1 : core->awaited_end++;
    struct awaited *awaited = &core->awaited[index];
    if (core->awaited_free) core->awaited_free = awaited->by_name_next;
    TAILQ_INIT(&awaited->wishes);
    memcpy(awaited->name, name, strlen(name) + 1);
    core->awaited_owners[index] = owner;
    uint32_t *chain = chain_of(core, name);
    awaited->by_name_next = *chain;
    *chain = index + 1;
    core->awaited_count++;
    return awaited;
}

static void awaited_free(struct core *core, struct awaited *awaited) {
    uint32_t *at = chain_of(core, awaited->name);
    while (&core->awaited[*at - 1] != awaited) at = &core->awaited[*at - 1].by_name_next;
    *at = awaited->by_name_next;
    awaited->by_name_next = core->awaited_free;
    core->awaited_free = (uint32_t)(awaited - core->awaited) + 1;
    core->awaited_count--;
}

static struct wish *wish_new(struct core *core) {
    struct wish *wish = TAILQ_FIRST(&core->wishes_free);
    if (!wish) {
        assert(core->wishes_end < WISHES_MAX);
        return &core->wishes[core->wishes_end++];
    }
    TAILQ_REMOVE(&core->wishes_free, wish, of_session);
    return wish;
}

static bool is_waiting(const struct session *session, const struct awaited *awaited) {
    const struct wish *wish = NULL;
    TAILQ_FOREACH(wish, &session->wishes, of_session) {
        if (wish->awaited == awaited) return true;
    }
    return false;
}

void wish_add(struct core *core, struct session *session, const char *name) {
    struct awaited *awaited = find(core, name);
    if (awaited && is_waiting(session, awaited)) return; /* the request names the queue twice */
    if (!awaited) awaited = awaited_new(core, name, principal_owner(session->principal));
    struct wish *wish = wish_new(core);
    wish->session = session;
    wish->awaited = awaited;
    TAILQ_INSERT_TAIL(&awaited->wishes, wish, of_name);
    TAILQ_INSERT_TAIL(&session->wishes, wish, of_session);
    session->wish_count++;
}

static void drop(struct core *core, struct wish *wish) {
    struct awaited *awaited = wish->awaited;
    TAILQ_REMOVE(&awaited->wishes, wish, of_name);
    TAILQ_REMOVE(&wish->session->wishes, wish, of_session);
    wish->session->wish_count--;
    TAILQ_INSERT_HEAD(&core->wishes_free, wish, of_session);
    if (TAILQ_EMPTY(&awaited->wishes)) awaited_free(core, awaited);
}

void wishes_drop(struct core *core, struct session *session) {
    struct wish *wish = NULL;
    while ((wish = TAILQ_FIRST(&session->wishes))) drop(core, wish);
}

void wishes_grant(struct core *core, struct queue *queue) {
    struct awaited *awaited = find(core, queue->name);
    struct wish *wish = awaited ? TAILQ_FIRST(&awaited->wishes) : NULL;
    while (wish) {
        struct wish *next = TAILQ_NEXT(wish, of_name);
        struct session *session = wish->session;
        drop(core, wish);
        session_subscribe_to(core, session, queue);
        wish = next;
    }
}
