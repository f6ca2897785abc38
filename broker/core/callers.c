/* callers.c: see callers.h. */
#include "callers.h"

#include <string.h>

#include "frame.h"
#include "producers.h"

bool caller_is_confined(const struct core_caller *caller) {
    return caller && caller->prefix_count;
}

bool caller_may_all(const struct core_caller *caller) {
    return !caller || caller->is_broker;
}

bool caller_covers(const struct core_caller *caller, const char *queue_name) {
    if (!caller_is_confined(caller)) return true;
    const char *prefix = caller->prefixes;
    for (size_t i = 0; i < caller->prefix_count; i++, prefix += strlen(prefix) + 1) {
        if (strncmp(queue_name, prefix, strlen(prefix)) == 0) return true;
    }
    return false;
}

bool caller_is_owner(const struct core_caller *caller, const struct session *session) {
    if (!caller || caller->acts_for_all || !session->is_owned) return true;
    return strcmp(caller->name, session->principal) == 0;
}

struct producer *producer_of_caller(const struct core *core, uint64_t id, const struct core_caller *caller) {
    struct producer *producer = producer_find(core, id);
    if (!producer || !caller || caller->acts_for_all) return producer;
    return producer->owner == principal_owner(caller->name) ? producer : NULL;
}
