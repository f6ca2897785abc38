/* decide_define.c: sets and deletes definitions (definitions.h), and answers requests for them. */
#include <string.h>

#include "callers.h"
#include "decide.h"
#include "definitions.h"
#include "effects.h"
#include "query.h"

static const char not_yours[] = "definitions belong to the broker itself: no client may change them";

/* Returns the definition's state after this draft. */
static struct definition_state state_now(const struct draft *draft, const struct definition_key *key) {
    const Tarry__DefinitionPut *put = draft_definition(draft, key);
    if (!put) return definitions_find(draft->core->definitions, key);
    if (put->deleted) return (struct definition_state){0};
    return (struct definition_state){put->version, definition_hash(put)};
}

/* Returns the reason why the definition does not fit into its space, or NULL if it fits. Definitions that this commit
 * deletes or replaces are still counted, because the commit is not applied yet. */
static const char *lacks_room(const struct decision *d, const Tarry__Define *define) {
    const struct draft *draft = d->draft;
    const struct definition_use use = definitions_use(d->core->definitions, define->space);
    if (use.count + draft->define_count > DEFINITIONS_MAX)
        return "the space has its maximum number of definitions (DEFINITIONS_MAX, 65536): delete some first";
    if (use.size + draft->define_size > DEFINITIONS_SIZE_MAX)
        return "the definitions of the space reach their limit of 8 MiB (DEFINITIONS_SIZE_MAX): delete some first";
    bool is_second = draft->define_space && strcmp(draft->define_space, define->space) != 0;
    if (is_second) return "a commit may define in one space only";
    if (!definitions_admit(d->core->definitions, define->space))
        return "the maximum number of spaces have definitions (DEFINITION_SPACES_MAX, 2)";
    return NULL;
}

void decide_define(struct decision *d, const Tarry__Define *define) {
    const struct definition_key key = {define->space, define->name.data, define->name.len};
    if (!caller_may_all(d->caller)) {
        refuse_op(d, TARRY__CODE__DENIED, TARRY__OUTCOME__NONE, not_yours);
        return;
    }
    if (d->draft->define_count == DEFINES_PER_COMMIT_MAX) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE,
                  "a commit may have at most 1024 defines (DEFINES_PER_COMMIT_MAX): split it");
        return;
    }
    struct definition_state before = state_now(d->draft, &key);
    d->result->version = before.version;
    if (define->has_expected && define->expected != before.version) {
        refuse_op(d, TARRY__CODE__NOT_DONE, TARRY__OUTCOME__NONE, "the definition does not have the expected version");
        return;
    }
    d->draft->define_count++;
    d->draft->define_size += definition_size(define->name.len, define->value.len);
    const char *lack = define->deleted ? NULL : lacks_room(d, define);
    if (lack) {
        refuse_op(d, TARRY__CODE__TOO_LARGE, TARRY__OUTCOME__NONE, lack);
        return;
    }
    d->draft->define_space = define->space;
    d->result->outcome = TARRY__OUTCOME__DONE;
    d->result->version = define->deleted ? 0 : d->core->position;
    if (define->deleted && !before.version) return; /* nothing changes */
    Tarry__DefinitionPut *put = must_alloc(d->draft->arena, sizeof *put);
    tarry__definition_put__init(put);
    put->space = define->space;
    put->name = define->name;
    if (!define->deleted) put->value = define->value;
    put->version = d->core->position;
    put->deleted = define->deleted;
    put->before_hash = before.hash;
    draft_define(d->draft, &key, put);
}

void query_definitions(struct core *core, const struct core_request *request, struct core_effects *effects) {
    Tarry__Reply *reply = reply_new(effects, TARRY__CODE__OK);
    reply->body_case = TARRY__REPLY__BODY_DEFINITIONS;
    reply->definitions = must_alloc(effects->arena, sizeof *reply->definitions);
    tarry__definitions_reply__init(reply->definitions);
    reply->definitions->position = core->position;
    definitions_list(core->definitions, request->message->definitions, effects->arena, reply->definitions);
    reply_send(core, effects, request->ticket, reply);
}
