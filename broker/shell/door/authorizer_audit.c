/* authorizer_audit.c: records refused clients in the log; see authorizer.h. The door's thread counts the refusals
 * (access/access.h). The authorizer's thread offers them to the core thread, which records them. */
#include <assert.h>
#include <sys/eventfd.h>

#include "authorizer.h"
#include "monotonic.h"

void authorizer_note(struct authorizer *authorizer, Tarry__AccessRefused__Why why, const char *peer,
                     const char *principal, const char *what, uint64_t count) {
    bool is_news =
        refusals_add(&authorizer->refusals, why, peer, principal, what, count, boottime_ns() / NS_PER_MS + 1);
    if (is_news && authorizer->runs) (void)eventfd_write(authorizer->wake, 1);
}

static void give_back(struct refusals_told *told, bool is_recorded) {
    struct authorizer *authorizer = told->owner;
    pthread_mutex_lock(&authorizer->mutex);
    told->is_offered = false;
    if (is_recorded) told->count = 0;
    pthread_mutex_unlock(&authorizer->mutex);
}

void authorizer_tell(struct authorizer *authorizer, bool all) {
    struct refusals_told *told = &authorizer->told;
    pthread_mutex_lock(&authorizer->mutex);
    bool is_free = !told->is_offered;
    if (is_free && told->count == 0)
        told->count = refusals_take(&authorizer->refusals, boottime_ns() / NS_PER_MS + 1, all, told->rows);
    bool offers = is_free && told->count > 0;
    if (offers) {
        told->told = give_back;
        told->owner = authorizer;
        told->item = (struct item){.kind = ITEM_REFUSALS};
        told->is_offered = true;
    }
    pthread_mutex_unlock(&authorizer->mutex);
    if (offers) inbox_post(authorizer->inbox, &told->item);
}
